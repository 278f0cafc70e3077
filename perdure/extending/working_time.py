"""Limits of working time for steps and tools; time spent waiting for a store does not count."""

import asyncio
from typing import TypeVar

from perdure.domain.foundation.retry_policies import PATIENCE, Patience

R = TypeVar("R")

SHORTEST_LOOK_S = 0.25


async def wait_within_limit(task: "asyncio.Future[R]", *, seconds: float | None) -> bool:
    """Wait for a task up to a limit of working time; waiting for a store does not count."""
    clock = asyncio.get_running_loop().time
    patience = PATIENCE.get() or Patience()
    began, waited = clock(), patience.store_seconds(clock())
    while not task.done():
        left = None
        if seconds is not None:
            left = seconds - (clock() - began) + (patience.store_seconds(clock()) - waited)
            if left <= 0:
                return False
        if left is not None and patience.open:
            # While a store is waited for, the time left stands still, perhaps close to 0.
            left = max(left, SHORTEST_LOOK_S)
        await asyncio.wait({task}, timeout=left)
    return True
