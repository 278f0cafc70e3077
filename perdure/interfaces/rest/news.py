"""Wakes everyone who waits for a change of a shared thing."""

import asyncio


class News:
    """Counts changes, so that a waiter never misses one between its last look and its wait."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Event()

    def tell(self) -> None:
        """Count a change and wake all waiters."""
        self.count += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def after(self, seen: int, *, within: float) -> bool:
        """Wait until the count exceeds `seen`; False if that takes longer than `within` seconds."""
        if self.count > seen:
            return True
        try:
            async with asyncio.timeout(within):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True
