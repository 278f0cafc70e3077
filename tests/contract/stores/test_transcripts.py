"""Transcripts: same content gives the same head, prefixes are shared, turns cost no reads."""

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.adapters.stores.blobs import VerifiedBlobStore
from perdure.adapters.stores.encryption import Vault
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.stores.transcripts import LinkedTranscripts
from perdure.domain.foundation.errors import InvalidInput, NotFound, StoreError
from perdure.domain.foundation.tokens import TokenSizes
from perdure.domain.llm.transcript import (
    Message,
    ToolUseBlock,
    TranscriptRef,
    assistant_message,
    message_tokens,
    user_message,
)

messages = st.builds(
    user_message, st.text(st.characters(exclude_categories=["Cs"])), pinned=st.booleans()
)


class MemoryShelf:
    """A shelf without a disk, for what is about the chain alone."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def write(self, address: str, stored: bytes) -> None:
        self.kept[address] = stored

    async def keep(self, address: str, size: int, sealed: Callable[[], bytes]) -> None:
        if address not in self.kept:
            self.kept[address] = sealed()

    async def renew(self, address: str, size: int) -> bool:
        return address in self.kept

    async def read(self, address: str) -> bytes | None:
        return self.kept.get(address)


class CountingBlobs:
    """Passes everything on and counts the reads."""

    def __init__(self, inner: VerifiedBlobStore) -> None:
        self.inner = inner
        self.reads = 0

    async def get(self, address: str) -> bytes:
        self.reads += 1
        return await self.inner.get(address)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


@pytest.fixture(params=[(), (bytes(32),)], ids=["plain", "encrypted"])
async def stores(
    request: pytest.FixtureRequest, database_url: str, tmp_path: Path
) -> AsyncGenerator[Stores]:
    opened = await open_stores(tmp_path / "home", database_url, encryption_keys=request.param)
    yield opened
    await opened.close()


@pytest.fixture
def counting() -> CountingBlobs:
    shelf = MemoryShelf()
    return CountingBlobs(VerifiedBlobStore(shelf, Vault()))  # pyright: ignore[reportArgumentType]


def _use(arguments: Mapping[str, object]) -> Message:
    block = ToolUseBlock.model_validate(
        {"type": "tool_use", "id": "1", "name": "fs.read", "arguments": arguments}
    )
    return Message(role="assistant", blocks=(block,))


async def test_messages_come_back_in_order(stores: Stores) -> None:
    said = [
        user_message("hello", pinned=True),
        assistant_message("héllo\x00"),
        _use({"b": 1, "a": [2]}),
    ]
    first = await stores.transcripts.append(None, said[:1])
    head = await stores.transcripts.append(first, said[1:])
    assert await stores.transcripts.load(head.hash) == tuple(said)
    assert await stores.transcripts.load(first.hash) == tuple(said[:1])
    assert head.messages == 3
    assert head.tokens == sum(map(message_tokens, said), TokenSizes())


async def test_the_same_append_gives_the_same_head(stores: Stores) -> None:
    """A retried step finds its own link again, whatever order its arguments came in."""
    again = LinkedTranscripts(stores.blobs)
    base = await stores.transcripts.append(None, [user_message("go")])
    heads = {
        (await transcripts.append(base, [_use(arguments)])).hash
        for transcripts in (stores.transcripts, again)
        for arguments in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    }
    assert len(heads) == 1


async def test_forks_share_their_prefix(stores: Stores) -> None:
    base = await stores.transcripts.append(None, [user_message("shared " * 5000)])
    left = await stores.transcripts.append(base, [assistant_message("left")])
    right = await stores.transcripts.append(base, [assistant_message("right")])
    assert left.hash != right.hash
    sizes = [size async for _, size, _ in stores.blobs.addresses()]
    assert len(sizes) == 3
    assert sorted(sizes)[1] < 1000


async def test_nothing_to_append_keeps_the_head(stores: Stores) -> None:
    head = await stores.transcripts.append(None, [user_message("go")])
    assert await stores.transcripts.append(head, []) == head


async def test_totals_come_from_the_chain_not_from_the_caller(stores: Stores) -> None:
    head = await stores.transcripts.append(None, [user_message("go")])
    forgetful = await stores.transcripts.append(
        TranscriptRef(hash=head.hash), [assistant_message("a")]
    )
    assert forgetful == await stores.transcripts.append(head, [assistant_message("a")])


async def test_a_thousand_turns_read_nothing_twice(counting: CountingBlobs) -> None:
    transcripts = LinkedTranscripts(counting)  # pyright: ignore[reportArgumentType]
    head = None
    for turn in range(1000):
        head = await transcripts.append(head, [assistant_message(f"turn {turn}")])
        if turn % 100 == 0:
            assert len(await transcripts.load(head.hash)) == turn + 1
    assert counting.reads == 0


async def test_another_worker_reads_each_link_once(counting: CountingBlobs) -> None:
    writer = LinkedTranscripts(counting.inner)
    head = await writer.append(None, [user_message("go")])
    for turn in range(20):
        head = await writer.append(head, [assistant_message(f"turn {turn}")])
    reader = LinkedTranscripts(counting)  # pyright: ignore[reportArgumentType]
    assert await reader.load(head.hash) == await reader.load(head.hash)
    assert counting.reads == 21
    await reader.append(head, [user_message("more")])
    assert counting.reads == 21


async def test_a_forgotten_chain_is_read_again(counting: CountingBlobs) -> None:
    transcripts = LinkedTranscripts(counting)  # pyright: ignore[reportArgumentType]
    head = await transcripts.append(None, [user_message("go")])
    head = await transcripts.append(head, [assistant_message("went")])
    whole = await transcripts.load(head.hash)
    assert counting.reads == 0
    transcripts.forget(head.hash)
    assert transcripts._cache._held == 0
    assert await transcripts.load(head.hash) == whole
    assert counting.reads == 2


async def test_a_small_cache_is_slower_never_wrong(stores: Stores) -> None:
    transcripts = LinkedTranscripts(stores.blobs, cache_bytes=40_000)
    head = None
    for turn in range(30):
        head = await transcripts.append(head, [assistant_message(f"turn {turn} " + "x" * 100)])
    assert head is not None
    assert len(await transcripts.load(head.hash)) == 30
    assert transcripts._cache._held <= 40_000


async def test_an_unknown_parent_is_not_found(stores: Stores) -> None:
    with pytest.raises(NotFound):
        await stores.transcripts.append(
            TranscriptRef(hash="sha256:" + "0" * 64), [user_message("go")]
        )


async def test_another_blob_is_no_transcript(stores: Stores) -> None:
    address = await stores.blobs.put(b"{}")
    with pytest.raises(StoreError, match="not a link of a transcript"):
        await stores.transcripts.load(address)


@pytest.mark.parametrize(
    ("message", "words"),
    [(_use({"x": float("nan")}), "NaN"), (user_message("a\ud800"), "lone surrogate")],
    ids=["nan", "surrogate"],
)
async def test_what_json_cannot_hold_is_refused(
    stores: Stores, message: Message, words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        await stores.transcripts.append(None, [message])


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(parts=st.lists(st.lists(messages, min_size=1, max_size=3), min_size=1, max_size=6))
async def test_any_chain_loads_as_it_was_appended(
    stores: Stores, parts: list[list[Message]]
) -> None:
    head: TranscriptRef | None = None
    for part in parts:
        head = await stores.transcripts.append(head, part)
    assert head is not None
    fresh = LinkedTranscripts(stores.blobs)
    assert await fresh.load(head.hash) == tuple(message for part in parts for message in part)
    assert head.messages == sum(map(len, parts))
