"""How long a step has worked, by the event loop's own clock."""

import asyncio


class Stopwatch:
    """Counts seconds from its making; a clock that steps back does not touch it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()

    @property
    def seconds(self) -> float:
        """Seconds so far, to the millisecond."""
        return round(self._loop.time() - self._started, 3)
