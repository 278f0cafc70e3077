"""Follows addresses from blob to blob."""

from collections.abc import Callable

from perdure.domain.foundation.errors import NotFound, StoreAway, StoreError
from perdure.domain.foundation.refs import addresses_in
from perdure.domain.ports import BlobStore

TOLD_EVERY = 1_000


async def reachable(
    blobs: BlobStore, roots: set[str], *, tell: Callable[[str], None] = lambda _: None
) -> set[str]:
    """Addresses and all that they lead to; raises `StoreError` if content cannot be read."""
    needed: set[str] = set()
    waiting = list(roots)
    while waiting:
        address = waiting.pop()
        if address in needed:
            continue
        needed.add(address)
        if len(needed) % TOLD_EVERY == 0:
            tell(f"the content of {len(needed)} blobs read")
        waiting += addresses_in(await content(blobs, address)) - needed
    return needed


async def content(blobs: BlobStore, address: str) -> bytes:
    """The content of a blob; empty if there is no such blob."""
    try:
        return await blobs.get(address)
    except NotFound:
        return b""  # a missing blob leads to no others
    except StoreAway:
        raise  # it heals, and no backup is needed
    except StoreError as error:
        raise StoreError(
            f"{error.message} What it refers to is unknown, so nothing was deleted.",
            cure=error.cure or "Restore it from a backup.",
        ) from error
