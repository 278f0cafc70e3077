"""The blob store: both shelves, plain and encrypted, keep one contract."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unprivileged import unprivileged

from perdure.adapters.stores.blobs import BlobBackend, VerifiedBlobStore
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import Vault
from perdure.adapters.stores.file_blobs import STALE_SECONDS, FileShelf
from perdure.adapters.stores.open_stores import open_stores
from perdure.adapters.stores.sql_blobs import TableShelf
from perdure.domain.foundation.errors import InvalidInput, NotFound, StoreAway, StoreError
from perdure.domain.foundation.tokens import estimate

KEY = bytes(range(32))
OTHER_KEY = bytes(32)
ABSENT = "sha256:" + "0" * 64


@pytest.fixture(
    params=[
        "files",
        "sqlite",
        "postgresql",
        pytest.param("s3 sqlite", marks=pytest.mark.long),
        pytest.param("s3 postgresql", marks=pytest.mark.long),
        pytest.param("folder sqlite", marks=pytest.mark.long),
    ]
)
async def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[BlobBackend]:
    content, _, rows = request.param.rpartition(" ")
    if content:
        url = (
            f"s3://{request.getfixturevalue('bucket')}/some/prefix"
            if content == "s3"
            else f"file://{_folder(tmp_path)}"
        )
        database_url = None if rows == "sqlite" else request.getfixturevalue("postgresql_url")
        stores = await open_stores(tmp_path / "home", database_url, blobs=url)
        assert stores.objects is not None
        yield stores.objects
        await stores.close()
        return
    if request.param == "files":
        files = FileShelf(tmp_path / "blobs")
        files.open()
        yield files
        return
    url = (
        f"sqlite:///{tmp_path / 'blobs.sqlite'}"
        if request.param == "sqlite"
        else request.getfixturevalue("postgresql_url")
    )
    database = await Database.open(url)
    yield TableShelf(database)
    await database.close()


def _folder(tmp_path: Path) -> Path:
    (tmp_path / "mounted").mkdir()
    return tmp_path / "mounted"


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def key(request: pytest.FixtureRequest) -> bytes | None:
    return request.param


def _vault(*keys: bytes | None) -> Vault:
    return Vault(*(key for key in keys if key is not None))


@pytest.fixture
def blobs(shelf: BlobBackend, key: bytes | None) -> VerifiedBlobStore:
    return VerifiedBlobStore(shelf, _vault(key))


@pytest.mark.parametrize(
    "data", [b"", b"a", bytes(range(256)), b"x" * 3_000_000], ids=["empty", "one", "all", "3MB"]
)
async def test_what_is_put_is_got(blobs: VerifiedBlobStore, data: bytes) -> None:
    address = await blobs.put(data)
    assert await blobs.get(address) == data
    assert await blobs.exists(address)


async def test_equal_content_has_one_address_and_one_copy(blobs: VerifiedBlobStore) -> None:
    addresses = {await blobs.put(b"same") for _ in range(3)}
    assert len(addresses) == 1
    assert len([found async for found in blobs.addresses()]) == 1


@pytest.mark.long
async def test_many_writers_of_equal_content(blobs: VerifiedBlobStore) -> None:
    addresses = await asyncio.gather(*(blobs.put(bytes([n % 3]) * 50_000) for n in range(12)))
    assert len(set(addresses)) == 3
    assert [await blobs.get(address) for address in addresses] == [
        bytes([n % 3]) * 50_000 for n in range(12)
    ]


async def test_text_comes_with_its_size(blobs: VerifiedBlobStore) -> None:
    text = "Ein Satz über Größe.\nx = {1: 2}\n日本語\n\x00"
    ref = await blobs.put_text(text)
    assert (ref.bytes, ref.tokens) == (len(text.encode()), estimate(text))
    assert await blobs.get_text(ref.hash) == text


async def test_text_that_utf8_cannot_write_is_refused(blobs: VerifiedBlobStore) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate at character 2"):
        await blobs.put_text("ab\ud800")


async def test_bytes_are_not_given_out_as_text(blobs: VerifiedBlobStore) -> None:
    with pytest.raises(InvalidInput, match="not UTF-8"):
        await blobs.get_text(await blobs.put(b"\xff\xfe"))


@pytest.mark.parametrize("address", [ABSENT, "hmac:" + "1" * 64, "sha256:../../etc/passwd", ""])
async def test_an_unknown_address_is_not_found(blobs: VerifiedBlobStore, address: str) -> None:
    with pytest.raises(NotFound):
        await blobs.get(address)


def _soon() -> datetime:
    return datetime.now(UTC) + timedelta(minutes=1)


async def test_deleting_returns_what_was_freed(blobs: VerifiedBlobStore) -> None:
    kept, dropped = await blobs.put(b"kept"), await blobs.put(b"x" * 1000)
    [freed] = await blobs.delete([dropped, ABSENT], written_before=_soon())
    assert freed >= 1000
    assert not await blobs.exists(dropped)
    assert await blobs.get(kept) == b"kept"
    assert await blobs.delete([dropped], written_before=_soon()) == []


async def test_what_was_written_or_renewed_since_is_not_deleted(blobs: VerifiedBlobStore) -> None:
    old, renewed = await blobs.put(b"old"), await blobs.put(b"renewed")
    await asyncio.sleep(0.02)  # file times are as coarse as the kernel's tick
    moment = datetime.now(UTC)
    await asyncio.sleep(0.02)
    await blobs.put(b"renewed")
    new = await blobs.put(b"new")
    sizes = await blobs.delete([old, renewed, new], written_before=moment)
    assert len(sizes) == 1
    assert [await blobs.exists(address) for address in (old, renewed, new)] == [False, True, True]


@pytest.mark.long
async def test_writers_of_what_is_being_deleted_keep_their_content(
    blobs: VerifiedBlobStore,
) -> None:
    contents = [f"content {n}".encode() for n in range(60)]
    addresses = [await blobs.put(content) for content in contents]
    await asyncio.sleep(0.02)
    moment = datetime.now(UTC)
    await asyncio.sleep(0.02)

    async def written(part: list[bytes]) -> None:
        for content in part:
            await blobs.put(content)

    writers = [written(contents[start::4]) for start in range(4)]
    deleters = [blobs.delete(addresses[start::3], written_before=moment) for start in range(3)]
    await asyncio.gather(*deleters, *writers)
    assert all([await blobs.exists(address) for address in addresses])


async def test_all_addresses_are_listed_with_size_and_time(blobs: VerifiedBlobStore) -> None:
    before = datetime.now(UTC).timestamp() - 1
    put = {await blobs.put(bytes([n]) * 10) for n in range(20)}
    found = [entry async for entry in blobs.addresses()]
    assert {address for address, _, _ in found} == put
    assert all(size >= 10 and time.timestamp() > before for _, size, time in found)


async def test_a_repeated_put_renews_the_time(blobs: VerifiedBlobStore, shelf: BlobBackend) -> None:
    """Garbage collection goes by this time, so content that is in use again must look new."""
    await blobs.put(b"old")
    [(_, _, first)] = [entry async for entry in blobs.addresses()]
    if isinstance(shelf, FileShelf):
        [file] = [path for path in shelf._root.glob("??/*") if path.is_file()]
        os.utime(file, (1, 1))
        first = datetime.fromtimestamp(1, UTC)
    await blobs.put(b"old")
    [(_, _, second)] = [entry async for entry in blobs.addresses()]
    assert second > first


async def _damage(shelf: BlobBackend, address: str) -> None:
    stored = await shelf.read(address)
    assert stored
    await shelf.write(address, stored[:-1] + bytes([stored[-1] ^ 1]))


async def test_damaged_content_is_never_given_out(
    blobs: VerifiedBlobStore, shelf: BlobBackend
) -> None:
    address = await blobs.put(b"precious")
    await _damage(shelf, address)
    with pytest.raises(StoreError, match=address):
        await blobs.get(address)


async def test_encrypted_content_is_unreadable_on_the_shelf(shelf: BlobBackend) -> None:
    blobs = VerifiedBlobStore(shelf, Vault(KEY))
    address = await blobs.put(b"a secret goal")
    stored = await shelf.read(address)
    assert stored is not None
    assert b"secret" not in stored
    assert address.startswith("hmac:")
    assert address != await VerifiedBlobStore(shelf, Vault(OTHER_KEY)).put(b"a secret goal")


@pytest.mark.parametrize(
    ("key", "words"),
    [(None, "has no key"), (OTHER_KEY, "another key wrote it")],
    ids=["no key", "wrong key"],
)
async def test_without_the_right_key_nothing_is_read(
    shelf: BlobBackend, key: bytes | None, words: str
) -> None:
    address = await VerifiedBlobStore(shelf, Vault(KEY)).put(b"a secret goal")
    with pytest.raises(StoreError, match=words):
        await VerifiedBlobStore(shelf, _vault(key)).get(address)


async def test_a_store_that_got_its_key_later_reads_its_plain_blobs(shelf: BlobBackend) -> None:
    address = await VerifiedBlobStore(shelf, Vault()).put(b"plain")
    assert await VerifiedBlobStore(shelf, Vault(KEY)).get(address) == b"plain"


async def test_an_old_key_opens_what_it_sealed_and_seals_nothing_more(shelf: BlobBackend) -> None:
    before = await VerifiedBlobStore(shelf, Vault(OTHER_KEY)).put(b"a secret goal")
    turned = VerifiedBlobStore(shelf, Vault(KEY, OTHER_KEY))
    assert await turned.get(before) == b"a secret goal"
    after = await turned.put(b"a secret goal")
    assert after != before
    assert await VerifiedBlobStore(shelf, Vault(KEY)).get(after) == b"a secret goal"
    with pytest.raises(StoreError, match="another key wrote it"):
        await VerifiedBlobStore(shelf, Vault(KEY)).get(before)


async def test_files_of_killed_writers_are_dropped_once_stale(tmp_path: Path) -> None:
    shelf = FileShelf(tmp_path / "blobs")
    shelf.open()
    stale, fresh = tmp_path / "blobs/unfinished/1-a", tmp_path / "blobs/unfinished/1-b"
    for file in (stale, fresh):
        file.write_bytes(b"half")
    long_ago = time.time() - STALE_SECONDS - 1
    os.utime(stale, (long_ago, long_ago))
    shelf.open()
    assert (stale.exists(), fresh.exists()) == (False, True)
    assert [found async for found in shelf.addresses()] == []


@pytest.mark.parametrize(
    "stray",
    [
        "ab",
        "zz/notes",
        ".DS_Store",
        "{folder}/.DS_Store",
        "{folder}/.nfs000000000001",
        "{blob}~",
        "{blob}.sealed.sealed",
    ],
)
async def test_files_of_others_are_no_blobs(tmp_path: Path, stray: str) -> None:
    shelf = FileShelf(tmp_path)
    shelf.open()
    blobs = VerifiedBlobStore(shelf, Vault())
    address = await blobs.put(b"kept")
    digits = address.partition(":")[2]
    folder = digits[:2]
    file = tmp_path / stray.format(folder=folder, blob=f"{folder}/{digits[2:]}")
    file.parent.mkdir(exist_ok=True)
    file.write_text("none of ours")
    assert [found async for found, _, _ in blobs.addresses()] == [address]


async def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    shelf = FileShelf(tmp_path / "blobs")
    shelf.open()
    await VerifiedBlobStore(shelf, Vault()).put(b"private")
    folder = tmp_path / "blobs"
    modes = {path.stat().st_mode & 0o077 for path in (folder, *folder.rglob("*"))}
    assert modes == {0}


async def test_a_folder_that_cannot_be_looked_into_is_away_and_not_empty() -> None:
    await asyncio.to_thread(int)  # loads what threads need, before the rights are gone
    with unprivileged() as folder:
        shelf = FileShelf(folder / "blobs")
        shelf.open()
        address = await VerifiedBlobStore(shelf, Vault()).put(b"kept")
        (folder / "blobs" / address.partition(":")[2][:2]).chmod(0)
        for asked in (shelf.exists, shelf.read):
            with pytest.raises(StoreAway, match="cannot be read: Permission denied"):
                await asked(address)


@given(data=st.binary(max_size=500), key=st.binary(min_size=32, max_size=32))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_sealing_is_undone_by_opening(data: bytes, key: bytes) -> None:
    vault = Vault(key)
    address = vault.address(data)
    sealed = vault.seal(address, data)
    assert vault.open(address, sealed) == data
    assert len(sealed) == vault.stored_size(len(data))


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(InvalidInput, match=f"has {size} bytes instead of 32"):
        Vault(bytes(size))


async def test_a_small_blob_of_a_file_takes_one_trip_to_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FileShelf(tmp_path / "blobs")
    files.open()
    trips: list[object] = []
    inherited = asyncio.to_thread

    async def counted(work: Callable[..., object], *given: object) -> object:
        trips.append(work)
        return await inherited(work, *given)

    monkeypatch.setattr(asyncio, "to_thread", counted)
    store = VerifiedBlobStore(files, _vault(KEY))
    for number in (1, 2):
        address = await store.put(b"what a model said")
        assert len(trips) == number
    assert await store.get(address) == b"what a model said"
