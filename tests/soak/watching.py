"""Runs that somebody follows: what each came to, noted before anything may delete it."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from installation import Installation

from perdure.domain.foundation.errors import NotFound
from perdure.domain.run.result import RunResult
from tests.soak.patience import patiently

ACCEPTED = frozenset({"accepted"})


@dataclass
class Followed:
    """One run: what it may end as, and its newest result.

    Attributes:
        number: of its task, where no other run has it; its calls are told by it.
        unseen: it was collected before anybody had asked for its result.
    """

    run: str
    ends: Collection[str] = ACCEPTED
    number: int | None = None
    result: RunResult | None = None
    unseen: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Watch:
    """Follows root runs to their ends."""

    def __init__(self, site: Installation) -> None:
        self._site = site
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.runs: dict[str, Followed] = {}

    def follow(
        self, run: str, *, ends: Collection[str] = ACCEPTED, number: int | None = None
    ) -> Followed:
        """Note what comes of it; following it once more waits for its next end."""
        known = self.runs.get(run)
        if known is not None and not known.ended.is_set():
            return known
        followed = self.runs[run] = Followed(run, ends, number)
        self._tasks[run] = asyncio.create_task(self._to_its_end(followed))
        return followed

    async def all_ended(self) -> None:
        """Wait for all that are followed, and those that come meanwhile."""
        while waiting := [task for task in self._tasks.values() if not task.done()]:
            await asyncio.wait(waiting)
        for task in self._tasks.values():
            task.result()

    def give_up(self) -> None:
        """Follow nothing any more."""
        for task in self._tasks.values():
            task.cancel()

    async def _to_its_end(self, followed: Followed) -> None:
        async def look() -> None:
            try:
                followed.result = await self._site.gateway.result(followed.run)
            except NotFound:
                stones = await self._site.parts.stores.erasure().tombstones(followed.run)
                if not stones:
                    raise
                followed.unseen = True

        try:
            await patiently(look)
        finally:
            followed.ended.set()  # whoever waits goes on, and `all_ended` tells what went wrong
