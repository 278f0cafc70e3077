"""Starts in progress: simultaneous requests with one key become one start.

The claim in the store is common to all API processes. What a process knows of requests that take
part is its own.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fastapi import Request

from perdure.domain.installation.access import IdempotencyRecord
from perdure.gateway.types import Wanted
from perdure.interfaces.services import Services
from perdure.interfaces.starters import forget_failed


def waiting(request: Request) -> Wanted:
    """Whether the client of a request is still there; no server ends the work of one that left."""

    async def is_there() -> bool:
        return not await request.is_disconnected()

    return is_there


Name = tuple[str, str]


@dataclass(slots=True)
class _Place:
    """Shared by requests of the same name; `lock` is held while a key is claimed or freed.

    `own` is a claim that one of them made, until a run comes of it.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    inside: int = 0
    told: bool = False
    own: str | None = None


@dataclass(slots=True)
class Start:
    """One request's part in the start of a run."""

    claim: IdempotencyRecord
    _known: bool
    _place: _Place

    def mark_started(self) -> bool:
        """Record that the run started; return whether that was known before."""
        replayed = self._known or self._place.told
        self._place.told = True
        return replayed


class Starts:
    """Starts in progress; a failed start frees its key only when no other request takes part.

    Only the process that claimed a key frees it: in another one the start may go on. The claim of
    one that died stays, and a repeat starts the run of that claim.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._places: dict[Name, _Place] = {}

    async def find_begun_run(self, token: str, key: str | None, body_hash: str) -> str | None:
        """The run that the same request began before; None if it began none, or was another.

        Asked before a specification is made of the request: defaults, or the run that a fork goes
        on from, may have changed since, and the client would pay for a second run.
        """
        claim = None if key is None else await self._services.access.start_of_key(token, key)
        if claim is None or claim.body_hash != body_hash:
            return None
        return claim.run if await self._services.gateway.has_begun(claim.run) else None

    @asynccontextmanager
    async def join_start(self, wanted: IdempotencyRecord) -> AsyncGenerator[Start]:
        """Claim a key, or wait for the request that claimed it earlier."""
        # Without a key nobody else can join the start, so its run id is name enough.
        name = (wanted.token, f"key {wanted.key}" if wanted.key is not None else wanted.run)
        place = self._places.setdefault(name, _Place())
        place.inside += 1
        try:
            # Under the lock that `_free` takes too: it must not drop a claim that was just joined.
            async with place.lock:
                claim = await self._services.access.claim_start(wanted)
                joined = claim.run != wanted.run
                place.own = place.own if joined else claim.run
                known = await self._services.records.run(claim.run) is not None
            yield Start(claim, known, place)
            place.own = None
            if joined:
                # The process that claimed the key may have failed and freed it meanwhile, also
                # after it had written the row of the run.
                again = wanted.model_copy(update={"run": claim.run})
                await self._services.access.claim_start(again)
        # A request that is cancelled frees its key as well.
        except BaseException:
            await self._free(place)
            raise
        finally:
            place.inside -= 1
            if place.inside == 0:
                del self._places[name]

    async def _free(self, place: _Place) -> None:
        """Free the key of a start that failed, unless other requests still take part."""
        async with place.lock:
            if place.inside > 1 or place.own is None:
                return
            await forget_failed(self._services, place.own)
