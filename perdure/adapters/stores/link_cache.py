"""Links that were read or written lately, bounded by the memory they take."""

from collections import OrderedDict

from perdure.domain.llm.transcript import Link

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

    @property
    def held_bytes(self) -> int:
        """What is held now."""
        return self._held

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
