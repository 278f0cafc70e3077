"""How long a step has worked, by the event loop's own clock; waiting for a store is no work."""

import asyncio

from perdure.domain.foundation.store_wait import PATIENCE, Patience


class Stopwatch:
    """Counts seconds from its making; a clock that steps back does not touch it."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._patience = PATIENCE.get() or Patience()
        self._started = self._clock()
        self._waited = self._patience.waited(self._started)

    @property
    def seconds(self) -> float:
        """Seconds of work so far, to the millisecond."""
        now = self._clock()
        waited = self._patience.waited(now) - self._waited
        return round(max(0.0, now - self._started - waited), 3)
