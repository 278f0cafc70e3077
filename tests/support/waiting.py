"""Waiting for what will come, with a bound: tests never sleep for a fixed time."""

import asyncio


async def eventually(condition, *, seconds: float = 300.0, every: float = 0.02) -> None:
    """Wait until `condition` (plain or async) gives something, and return it; fail when late."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"did not happen within {seconds} s")
        await asyncio.sleep(every)
