"""Wakes who follows a run when something is sent to that run through this process."""

import asyncio
from collections import defaultdict
from contextlib import suppress


class Nudges:
    """Those who wait for news of a run, by run."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def tell(self, run: str) -> None:
        """Wake all who wait for this run."""
        # Not by index, which would keep an entry for each run that nobody waits for.
        for waiting in self._waiting.get(run, ()):
            waiting.set()

    async def wait_for_news(self, run: str, seconds: float) -> bool:
        """Wait; return True, and sooner, if the run was told something meanwhile."""
        told = asyncio.Event()
        self._waiting[run].add(told)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), seconds)
        finally:
            self._waiting[run].discard(told)
            if not self._waiting[run]:
                del self._waiting[run]
        # The event and not the timeout decides: it may have been set at that very moment.
        return told.is_set()
