"""The chain of messages in the blob store: each link is a blob, addressed by its content."""

import json
from collections import OrderedDict
from collections.abc import Sequence

from pydantic import ValidationError

from perdure.adapters.stores.blobs import encode
from perdure.domain.foundation.errors import InvalidInput, Unreadable
from perdure.domain.foundation.tokens import TokenSizes
from perdure.domain.foundation.tolerance import read
from perdure.domain.llm.transcript import Link, Message, TranscriptRef, message_tokens
from perdure.domain.ports import BlobStore

# Measured: a link with one short message takes about 300 bytes as JSON and 4 KB in memory.
OBJECTS_BYTES = 4 * 1024


class LinkCache:
    """An LRU cache of links; a link is immutable, so an entry never goes stale.

    Args:
        limit_bytes: about how much memory the links may take.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0
        self._links: OrderedDict[str, tuple[Link, int]] = OrderedDict()

    def get(self, address: str) -> Link | None:
        """The link of an address, now the most recently used one; None if it is not here."""
        entry = self._links.get(address)
        if entry is None:
            return None
        self._links.move_to_end(address)
        return entry[0]

    def drop(self, address: str) -> Link | None:
        """Remove a link and return it."""
        entry = self._links.pop(address, None)
        if entry is None:
            return None
        self._held -= entry[1]
        return entry[0]

    def put(self, address: str, link: Link, *, size: int) -> None:
        """Keep a link that has `size` bytes as JSON, unless it is larger than the whole cache."""
        taken = size + OBJECTS_BYTES * max(1, len(link.messages))
        if address in self._links or taken > self._limit:
            return
        self._links[address] = (link, taken)
        self._held += taken
        while self._held > self._limit:
            _, (_, dropped) = self._links.popitem(last=False)
            self._held -= dropped


# If the cache is smaller than the conversations in progress, each turn reads every link again.
CACHE_BYTES = 32 * 1024 * 1024


class LinkedTranscripts:
    """`TranscriptStore`; a turn on a chain that is in the cache reads no blob.

    Args:
        blobs: where the links are kept.
        cache_bytes: about how much memory the chains may take.
    """

    def __init__(self, blobs: BlobStore, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._blobs = blobs
        self._cache = LinkCache(cache_bytes)

    async def append(
        self, head: TranscriptRef | None, messages: Sequence[Message]
    ) -> TranscriptRef:
        if head is not None and not messages:
            return head
        # Use the totals of the stored parent, not the caller's: they enter the link's address.
        parent = None if head is None else await self.link(head.hash)
        link = _next_link(None if head is None else head.hash, parent, tuple(messages))
        text = encode(_canonical(link))
        address = await self._blobs.put(text)
        # Only once the blob is stored: the store is not asked again for a link in the cache.
        self._cache.put(address, link, size=len(text))
        return TranscriptRef(hash=address, messages=link.messages_total, tokens=link.tokens_total)

    async def load(self, head: str) -> tuple[Message, ...]:
        parts: list[tuple[Message, ...]] = []
        address: str | None = head
        while address is not None:
            # Ask the cache first, without an await: a long chain has thousands of links.
            link = self._cache.get(address) or await self.link(address)
            parts.append(link.messages)
            address = link.parent
        return tuple(message for part in reversed(parts) for message in part)

    def forget(self, head: str) -> None:
        address: str | None = head
        while address is not None:
            dropped = self._cache.drop(address)
            address = None if dropped is None else dropped.parent

    async def link(self, address: str) -> Link:
        cached = self._cache.get(address)
        if cached is not None:
            return cached
        data = await self._blobs.get(address)
        try:
            link = read(Link, data)
        except ValidationError as error:
            raise Unreadable(
                f"The blob {address} is not a link of a transcript.",
                cure="Name the head of a transcript, as a record or a result shows it.",
            ) from error
        self._cache.put(address, link, size=len(data))
        return link


def _next_link(address: str | None, parent: Link | None, messages: tuple[Message, ...]) -> Link:
    tokens = TokenSizes() if parent is None else parent.tokens_total
    for message in messages:
        tokens = tokens + message_tokens(message)
    before = 0 if parent is None else parent.messages_total
    return Link(
        parent=address,
        messages=messages,
        messages_total=before + len(messages),
        tokens_total=tokens,
    )


def _canonical(link: Link) -> str:
    # Leave out fields at their default, so that a new field does not change old addresses.
    plain = link.model_dump(mode="json", exclude_defaults=True)
    try:
        return json.dumps(
            plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
        )
    except ValueError as error:
        raise InvalidInput(
            f"A message cannot be written as JSON: {error}.",
            cure="Replace NaN and infinite numbers before it is stored.",
        ) from error
