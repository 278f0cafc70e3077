"""Blobs in an object store whose network fails, whose objects vanish, and that is another one."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from object_store import Fault, Faulty, ask, made_bucket
from waiting import eventually

from perdure.adapters.stores import object_blobs
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.foundation.errors import InvalidInput, NotFound, StoreAway, StoreError

KEY = bytes(range(32))
CONTENT = b"precious " * 5000
HOURS = timedelta(hours=2)


@pytest.fixture
async def stores(faulty: Faulty, s3_server: str, tmp_path: Path) -> AsyncGenerator[Stores]:
    url = f"s3://{made_bucket(s3_server)}/some/prefix"
    opened = await open_stores(tmp_path / "home", blobs=url)
    await opened.blobs.put(b"the first looks where it is")
    faulty.seen.clear()
    yield opened
    await opened.close()


def bucket_of(stores: Stores) -> str:
    assert stores.objects is not None
    return stores.objects.url.removeprefix("s3://").partition("/")[0]


def objects_of(s3_server: str, bucket: str) -> list[str]:
    """The names of all objects, as the server itself tells."""
    _, listed = ask(s3_server, "GET", f"/{bucket}?list-type=2")
    return [name.decode() for name in re.findall(rb"<Key>(.*?)</Key>", listed)]


def takes_away(s3_server: str, bucket: str, words: str = "") -> None:
    for name in objects_of(s3_server, bucket):
        if words in name:
            ask(s3_server, "DELETE", f"/{bucket}/{name}")


@pytest.mark.parametrize(
    ("fault", "method", "times"),
    [
        ("503", "PUT", 2),
        ("500 afterwards", "PUT", 2),
        ("cut", "PUT", 1),
        ("refused", "PUT", 1),
        ("slow", "PUT", 1),
        ("503", "GET", 2),
        ("cut", "GET", 1),
        ("refused", "GET", 1),
        ("slow", "GET", 1),
        ("503", "HEAD", 2),
    ],
)
async def test_a_passing_fault_is_nothing(
    stores: Stores, faulty: Faulty, fault: Fault, method: str, times: int
) -> None:
    faulty.only(fault, method, times=times)
    address = await stores.blobs.put(CONTENT)
    assert await stores.blobs.put(CONTENT) == address
    assert await stores.blobs.get(address) == CONTENT
    assert [seen for *_, seen in faulty.seen].count(fault) == times


@pytest.mark.parametrize("fault", ["refused", "503", "403"])
async def test_what_stays_away_is_said_and_is_there_again(
    stores: Stores, faulty: Faulty, fault: Fault
) -> None:
    address = await stores.blobs.put(CONTENT)
    faulty.choose = lambda _method, _path: fault
    for asked in (stores.blobs.get(address), stores.blobs.put(b"new"), stores.blobs.put(CONTENT)):
        with pytest.raises(StoreAway, match=bucket_of(stores)) as away:
            await asked
        assert "AWS_ACCESS_KEY_ID" in (away.value.cure or "")
    faulty.back()
    assert await stores.blobs.get(address) == CONTENT
    assert await stores.blobs.get(await stores.blobs.put(b"new")) == b"new"


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["plain", "sealed"])
async def test_a_half_written_object_is_never_given_out_and_is_written_anew(
    faulty: Faulty, s3_server: str, tmp_path: Path, keys: tuple[bytes, ...]
) -> None:
    url = f"s3://{made_bucket(s3_server)}"
    stores = await open_stores(tmp_path / "home", blobs=url, encryption_keys=keys)
    await stores.blobs.put(b"the first")
    faulty.only("half", "PUT", times=1)
    address = await stores.blobs.put(CONTENT)
    with pytest.raises(StoreError, match="damaged"):
        await stores.blobs.get(address)
    assert await stores.blobs.put(CONTENT) == address
    assert await stores.blobs.get(address) == CONTENT
    await stores.close()


async def test_an_object_that_somebody_took_away_is_missed_and_written_anew(
    stores: Stores, s3_server: str
) -> None:
    address = await stores.blobs.put(CONTENT)
    takes_away(s3_server, bucket_of(stores), address[-20:])
    assert not await stores.blobs.exists(address)
    with pytest.raises(NotFound, match="not in this store"):
        await stores.blobs.get(address)
    assert await stores.blobs.put(CONTENT) == address
    assert await stores.blobs.get(address) == CONTENT


async def test_a_bucket_that_was_emptied_is_away(stores: Stores, s3_server: str) -> None:
    """A run waits for its blobs instead of failing for want of one."""
    address = await stores.blobs.put(CONTENT)
    takes_away(s3_server, bucket_of(stores))
    with pytest.raises(StoreAway, match="not where the blobs of this installation are"):
        await stores.blobs.get(address)


async def test_new_content_is_one_request_and_nothing_is_ever_listed(
    stores: Stores, faulty: Faulty
) -> None:
    address = await stores.blobs.put(CONTENT)
    await stores.blobs.get(address)
    assert [method for method, *_ in faulty.seen] == ["PUT", "GET"]
    await stores.blobs.put(CONTENT)
    await stores.blobs.exists(address)
    assert not [path for _, path, _ in faulty.seen if "list-type" in path]


async def test_requests_are_bounded(stores: Stores, faulty: Faulty) -> None:
    faulty.only("slow", "GET")
    addresses = [await stores.blobs.put(bytes([n])) for n in range(80)]
    await asyncio.gather(*(stores.blobs.get(address) for address in addresses))
    assert 1 < faulty.most_at_once <= 32


async def test_a_late_deletion_does_not_meet_who_puts_the_content_again(
    stores: Stores, faulty: Faulty
) -> None:
    address = await stores.blobs.put(CONTENT)
    faulty.only("slow", "POST")
    deleting = asyncio.create_task(stores.blobs.delete([address], written_before=utc_now() + HOURS))
    await eventually(lambda: ("POST", "slow") in [(seen[0], seen[2]) for seen in faulty.seen])
    assert await stores.blobs.put(CONTENT) == address
    assert await deleting == [len(CONTENT)]
    assert await stores.blobs.get(address) == CONTENT


async def test_leftovers_are_swept_and_nothing_else(
    stores: Stores, faulty: Faulty, s3_server: str
) -> None:
    assert stores.objects is not None
    bucket, later = bucket_of(stores), utc_now() + HOURS
    kept, left = await stores.blobs.put(b"kept"), await stores.blobs.put(CONTENT)
    ask(s3_server, "PUT", f"/{bucket}/some/prefix/of-somebody-else", b"x")
    faulty.choose = lambda method, _path: "503" if method == "POST" else None
    with pytest.raises(StoreAway):
        await stores.blobs.delete([left], written_before=later)
    faulty.back()
    before = objects_of(s3_server, bucket)
    assert await stores.objects.sweep(written_before=later, now=utc_now()) == [], "they are young"
    assert await stores.objects.sweep(written_before=later, now=later) == [len(CONTENT)]
    [swept] = set(before) - set(objects_of(s3_server, bucket))
    assert left[-20:] in swept
    assert await stores.blobs.get(kept) == b"kept"


async def test_a_writer_that_was_stopped_for_long_writes_anew(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its object may have been swept meanwhile, so that its row would lead nowhere."""
    with monkeypatch.context() as short:
        short.setattr(object_blobs, "LONGEST_WRITE", timedelta(0))
        with pytest.raises(StoreAway, match="took longer"):
            await stores.blobs.put(CONTENT)


async def test_an_installation_waits_until_it_is_told_where_its_blobs_are(
    stores: Stores, s3_server: str, tmp_path: Path
) -> None:
    address = await stores.blobs.put(CONTENT)
    for url in (f"s3://{made_bucket(s3_server)}", "s3://there-is-none"):
        wrong = await open_stores(tmp_path / "home", blobs=url)
        for asked in (wrong.blobs.get(address), wrong.blobs.put(b"new")):
            with pytest.raises(StoreAway, match="not where the blobs of this installation are"):
                await asked
        await wrong.close()
    untold = await open_stores(tmp_path / "home")
    with pytest.raises(StoreAway, match="PERDURE_BLOBS is not set"):
        await untold.blobs.get(address)
    await untold.close()


async def test_a_missing_bucket_is_named(faulty: Faulty, tmp_path: Path) -> None:
    stores = await open_stores(tmp_path / "home", blobs="s3://there-is-none/x")
    with pytest.raises(StoreAway, match="There is no bucket s3://there-is-none/x") as missing:
        await stores.blobs.put(CONTENT)
    assert "Make the bucket" in (missing.value.cure or "")
    await stores.close()


async def test_two_installations_never_share_a_place(
    stores: Stores, faulty: Faulty, tmp_path: Path
) -> None:
    """A collection of one would take the other's objects for leftovers."""
    assert stores.objects is not None
    other = await open_stores(tmp_path / "other", blobs=stores.objects.url)
    with pytest.raises(StoreAway, match="of another installation"):
        await other.blobs.put(b"mine")
    assert other.objects is not None
    with pytest.raises(StoreAway, match="of another installation"):
        await other.objects.sweep(written_before=utc_now() + HOURS, now=utc_now() + HOURS)
    await other.close()


@pytest.mark.parametrize(
    ("url", "unset", "words"),
    [
        ("s3//x", (), 'PERDURE_BLOBS: found "s3//x"; allowed: s3://BUCKET'),
        ("s3://bucket", ("AWS_ACCESS_KEY_ID",), "Missing AccessKeyId"),
        ("az://container", (), "Account must be specified"),
    ],
    ids=["no place", "half of the credentials", "no account"],
)
async def test_what_cannot_work_is_refused_at_once(
    faulty: Faulty,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    unset: tuple[str, ...],
    words: str,
) -> None:
    for name in unset:
        monkeypatch.delenv(name)
    with pytest.raises(InvalidInput, match=re.escape(words)) as refused:
        await open_stores(tmp_path / "home", blobs=url)
    assert refused.value.cure


async def test_missing_credentials_are_told_from_an_absent_store(
    faulty: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    stores = await open_stores(tmp_path / "home", blobs="s3://some-bucket")
    with pytest.raises(StoreAway, match="no credentials for the object store s3://some-bucket"):
        await stores.blobs.put(CONTENT)
    await stores.close()


async def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "perdure.adapters.stores.objects", raising=False)
    with pytest.raises(InvalidInput, match="library for object stores") as missing:
        await open_stores(tmp_path / "home", blobs="s3://some-bucket")
    assert "perdure[objects]" in (missing.value.cure or "")


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_blobs_of_before_are_read_where_they_are_and_can_be_moved(
    request: pytest.FixtureRequest, faulty: Faulty, s3_server: str, tmp_path: Path, database: str
) -> None:
    url = None if database == "sqlite" else request.getfixturevalue("postgresql_url")
    before = await open_stores(tmp_path / "home", url)
    contents = [f"content {number}".encode() for number in range(8)]
    addresses = [await before.blobs.put(content) for content in contents]
    await before.close()
    bucket = made_bucket(s3_server)
    stores = await open_stores(tmp_path / "home", url, blobs=f"s3://{bucket}")
    assert stores.objects is not None
    assert [await stores.blobs.get(address) for address in addresses] == contents
    assert await stores.blobs.put(contents[0]) == addresses[0], "renewed where it is"
    assert {found async for found, _, _ in stores.blobs.addresses()} == set(addresses)
    puts = iter(range(3))
    faulty.choose = lambda method, _path: (
        "503" if method == "PUT" and next(puts, None) is None else None
    )
    with pytest.raises(StoreAway):
        await stores.objects.move(now=utc_now())
    faulty.back()
    assert not await stores.objects.is_moved()
    moved, _ = await stores.objects.move(now=utc_now())
    assert 0 < moved < len(contents)
    assert await stores.objects.is_moved()
    assert await stores.objects.move(now=utc_now()) == (0, 0)
    assert [await stores.blobs.get(address) for address in addresses] == contents
    assert len(objects_of(s3_server, bucket)) == len(contents) + 1
    dropped = await stores.blobs.delete(addresses, written_before=_future())
    assert sum(dropped) == sum(len(content) for content in contents)
    await stores.close()


def _future() -> datetime:
    return utc_now() + HOURS
