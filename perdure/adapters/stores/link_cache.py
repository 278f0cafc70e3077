"""Links that were read or written lately, bounded by their size as text."""

from collections import OrderedDict

from perdure.domain.transcript import Link


class LinkCache:
    """Drops the link that was longest unused; a link is immutable, so it never goes stale.

    Args:
        limit_bytes: the sum of the links' sizes as JSON that is kept.
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

    def put(self, address: str, link: Link, *, size: int) -> None:
        """Keep a link; one that is larger than the whole cache is not kept."""
        if address in self._links or size > self._limit:
            return
        self._links[address] = (link, size)
        self._held += size
        while self._held > self._limit:
            _, (_, dropped) = self._links.popitem(last=False)
            self._held -= dropped
