"""Starts in progress: simultaneous requests with one key become one start."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from perdure.domain.installation.access import IdempotencyRecord
from perdure.interfaces.services import Services
from perdure.interfaces.starters import forget_failed

Name = tuple[str, str]


@dataclass(slots=True)
class _Place:
    """Shared by requests of the same name; `lock` is held while a key is claimed or freed."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    inside: int = 0
    told: bool = False


@dataclass(slots=True)
class Start:
    """One request's part in the start of a run."""

    claim: IdempotencyRecord
    _known: bool
    _place: _Place

    def done(self) -> bool:
        """Record that the run started; return whether that was known before."""
        replayed = self._known or self._place.told
        self._place.told = True
        return replayed


class Starts:
    """Starts in progress; a failed start frees its key only when no other request takes part."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._places: dict[Name, _Place] = {}

    @asynccontextmanager
    async def joined(self, wanted: IdempotencyRecord) -> AsyncGenerator[Start]:
        """Claim a key, or wait for the request that claimed it earlier."""
        # Without a key nobody else can join the start, so its run id is name enough.
        name = (wanted.token, f"key {wanted.key}" if wanted.key is not None else wanted.run)
        place = self._places.setdefault(name, _Place())
        place.inside += 1
        start = None
        try:
            # Under the lock that `_free` takes too: it must not drop a claim that was just joined.
            async with place.lock:
                claim = await self._services.access.claim_start(wanted)
                known = await self._services.records.run(claim.run) is not None
            start = Start(claim, known, place)
            yield start
        # A request that is cancelled frees its key as well.
        except BaseException:
            # With another body it is refused, and the claim belongs to the request that made it.
            if start is not None and start.claim.body_hash == wanted.body_hash:
                await self._free(start.claim.run, place)
            raise
        finally:
            place.inside -= 1
            if place.inside == 0:
                del self._places[name]

    async def _free(self, run: str, place: _Place) -> None:
        """Free the key of a start that failed, unless other requests still take part."""
        async with place.lock:
            if place.inside > 1:
                return
            await forget_failed(self._services, run)
