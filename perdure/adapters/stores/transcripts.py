"""The chain of messages over the blob store: one blob a link, named by its own content."""

import json
from collections import OrderedDict
from collections.abc import Sequence

from pydantic import ValidationError

from perdure.adapters.stores.blobs import encode
from perdure.domain.foundation.errors import InvalidInput, StoreError
from perdure.domain.foundation.tokens import TokenSizes
from perdure.domain.foundation.tolerance import read
from perdure.domain.llm.transcript import Link, Message, TranscriptRef, message_tokens
from perdure.domain.ports import BlobStore

# Measured: a link with one short message is some 300 bytes of text and 4 KB of objects.
OBJECTS_BYTES = 4 * 1024


class LinkCache:
    """Drops the link that was longest unused; a link is immutable, so it never goes stale.

    Args:
        limit_bytes: about how much memory the links that are kept may take.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0
        self._links: OrderedDict[str, tuple[Link, int]] = OrderedDict()

    def get(self, address: str) -> Link | None:
        """The link, which thereby counts as used."""
        entry = self._links.get(address)
        if entry is None:
            return None
        self._links.move_to_end(address)
        return entry[0]

    def drop(self, address: str) -> Link | None:
        """Take a link out, and return it."""
        entry = self._links.pop(address, None)
        if entry is None:
            return None
        self._held -= entry[1]
        return entry[0]

    def put(self, address: str, link: Link, *, size: int) -> None:
        """Keep a link of `size` bytes as JSON, unless it is larger than the whole cache."""
        taken = size + OBJECTS_BYTES * max(1, len(link.messages))
        if address in self._links or taken > self._limit:
            return
        self._links[address] = (link, taken)
        self._held += taken
        while self._held > self._limit:
            _, (_, dropped) = self._links.popitem(last=False)
            self._held -= dropped


# A cache smaller than the conversations in progress is worse than none: each turn then reads every
# link again.
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
        # The parent's own totals are taken, not the caller's: they are part of the link's name.
        parent = None if head is None else await self._link(head.hash)
        link = _next_link(None if head is None else head.hash, parent, tuple(messages))
        text = encode(_canonical(link))
        address = await self._blobs.put(text)
        self._cache.put(address, link, size=len(text))
        return TranscriptRef(hash=address, messages=link.messages_total, tokens=link.tokens_total)

    async def load(self, head: str) -> tuple[Message, ...]:
        parts: list[tuple[Message, ...]] = []
        address: str | None = head
        while address is not None:
            # Most are in the cache, and a long chain has thousands: none of those is awaited.
            link = self._cache.get(address) or await self._link(address)
            parts.append(link.messages)
            address = link.parent
        return tuple(message for part in reversed(parts) for message in part)

    def forget(self, head: str) -> None:
        address: str | None = head
        while address is not None:
            dropped = self._cache.drop(address)
            address = None if dropped is None else dropped.parent

    async def _link(self, address: str) -> Link:
        cached = self._cache.get(address)
        if cached is not None:
            return cached
        data = await self._blobs.get(address)
        try:
            link = read(Link, data)
        except ValidationError as error:
            raise StoreError(
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
    # Fields at their default are left out, so a field that is added later changes no name.
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
