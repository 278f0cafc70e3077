"""The blob store: addresses, verification and encryption over a backend that keeps the bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from perdure.adapters.stores.encryption import Vault, kind
from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tokens import TokenSizes, estimate

# Hashing and encrypting so much takes half a millisecond at most, which the event loop can spare.
# A switch to a thread costs a tenth of that.
INLINE_BYTES = 16 * 1024

P = ParamSpec("P")
R = TypeVar("R")


class BlobBackend(Protocol):
    """Stores encrypted bytes under an address."""

    async def write(self, address: str, stored: bytes) -> None:
        """Keep the bytes durably and atomically."""
        ...

    async def keep(self, address: str, size: int, sealed: Callable[[], bytes]) -> None:
        """Renew the bytes if `size` bytes are there already; otherwise write them.

        Args:
            address: the address of the bytes.
            size: how many there are.
            sealed: makes the bytes; called only if they have to be written.
        """
        ...

    async def renew(self, address: str, size: int) -> bool:
        """Set the time of last write to now; False if there are no `size` bytes."""
        ...

    async def read(self, address: str) -> bytes | None:
        """The bytes, or None."""
        ...

    async def exists(self, address: str) -> bool:
        """Whether there are bytes under this address."""
        ...

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        """Delete what was last written or renewed before a time; returns the deleted sizes.

        The comparison and the deletion are atomic: no renewal or write can come between them.
        """
        ...

    def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        """All addresses, each with its stored size and the time of its last write."""
        ...


class VerifiedBlobStore:
    """`BlobStore` over a backend; large blobs are hashed and encrypted in threads."""

    def __init__(self, shelf: BlobBackend, vault: Vault) -> None:
        self._shelf = shelf
        self._vault = vault

    async def put(self, data: bytes) -> str:
        address = await _beside(len(data), self._vault.address, data)
        sealed = partial(self._vault.seal, address, data)
        await self._shelf.keep(address, self._vault.stored_size(len(data)), sealed)
        return address

    async def put_text(self, text: str) -> BlobRef:
        data, tokens = await _beside(len(text), _measure, text)
        return BlobRef(hash=await self.put(data), bytes=len(data), tokens=tokens)

    async def get(self, address: str) -> bytes:
        # Refuses what is no address, since shelves make paths and names of it.
        kind(address)
        stored = await self._shelf.read(address)
        if stored is None:
            raise NotFound(
                f"The blob {address} is not in this store.",
                cure="It belongs to another store, was dropped with its run, or is newer than the"
                " backup that was restored: put a newer one back, or go on from the last iteration"
                " that is here with `perdure retry RUN`.",
            )
        return await _beside(len(stored), self._vault.open, address, stored)

    async def get_text(self, address: str) -> str:
        data = await self.get(address)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            # No retry helps: the content of an address never changes.
            raise InvalidInput(
                f"The blob {address} is not UTF-8 text.", cure="Read it as bytes instead."
            ) from error

    async def exists(self, address: str) -> bool:
        kind(address)
        return await self._shelf.exists(address)

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        for address in addresses:
            kind(address)
        return await self._shelf.delete(addresses, written_before=written_before)

    def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        return self._shelf.addresses()

    async def key_of(self, address: str) -> str | None:
        """The id of the key that encrypted a blob; None if none of ours did, or it is gone."""
        stored = await self._shelf.read(address)
        if stored is None:
            return None
        return await asyncio.to_thread(self._vault.key_of, address, stored)

    async def rewrap(self, address: str) -> bool:
        """Encrypt a blob again with the current key; False if there is nothing to do."""
        stored = await self._shelf.read(address)
        if stored is None:
            return False
        fresh = await asyncio.to_thread(self._vault.rewrapped, address, stored)
        if fresh is None:
            return False
        await self._shelf.write(address, fresh)
        return True


def encode(text: str) -> bytes:
    """UTF-8 bytes of `text`; raises `InvalidInput` for a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"The text holds a lone surrogate at character {error.start}"
            f" ({text[error.start]!r}), which UTF-8 cannot write.",
            cure="Replace it before the text is stored.",
        ) from error


async def renewed_or_written(
    shelf: BlobBackend, address: str, size: int, sealed: Callable[[], bytes]
) -> None:
    """`BlobBackend.keep` for backends that renew and write in two steps."""
    if not await shelf.renew(address, size):
        await shelf.write(address, await _beside(size, sealed))


async def _beside(size: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do the work in a thread if there is much of it; else here, as a thread would cost more."""
    if size <= INLINE_BYTES:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


def _measure(text: str) -> tuple[bytes, TokenSizes]:
    return encode(text), estimate(text)
