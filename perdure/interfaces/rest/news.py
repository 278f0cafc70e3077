"""Waking all who wait for a change of one thing that many look at."""

import asyncio


class News:
    """Counts changes; whoever looked before a change came is not left to wait for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Wake everyone who waits."""
        self.count += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def after(self, seen: int, *, within: float) -> bool:
        """Wait until there was more than a count; False where that took longer than `within` s."""
        if self.count > seen:
            return True
        try:
            async with asyncio.timeout(within):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True
