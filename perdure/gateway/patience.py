"""Waits while the server has no room for a request, or is away for a while."""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from temporalio.service import RPCError, RPCStatusCode

T = TypeVar("T")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
# The same status says that a request is too large, which no waiting makes smaller.
_TOO_LARGE = re.compile(r"larger than max|message too large", re.IGNORECASE)


def is_busy(error: RPCError) -> bool:
    """Whether a request was refused for lack of room; it had no effect."""
    return error.status == RPCStatusCode.RESOURCE_EXHAUSTED and not _TOO_LARGE.search(error.message)


def is_away(error: RPCError) -> bool:
    """Whether the server could not be reached, as in a failover."""
    return error.status == RPCStatusCode.UNAVAILABLE


async def while_busy(ask: Callable[[], Awaitable[T]], *, at_most_s: float) -> T:
    """Send a request again while the server has no room for it.

    Args:
        ask: sends the request. The client's own retries, of about 15 s, are a part of it.
        at_most_s: for so long after the first refusal.

    Raises:
        RPCError: the request failed for another reason, or the server had no room for too long.
    """
    return await _again(ask, is_busy, at_most_s=at_most_s)


async def while_away(ask: Callable[[], Awaitable[T]], *, at_most_s: float) -> T:
    """Send a request that changes nothing again while the server is away; as `while_busy`."""
    return await _again(ask, is_away, at_most_s=at_most_s)


async def _again(
    ask: Callable[[], Awaitable[T]], passes: Callable[[RPCError], bool], *, at_most_s: float
) -> T:
    clock, pause = asyncio.get_running_loop().time, FIRST_PAUSE_S
    since: float | None = None
    while True:
        began = clock()
        try:
            return await ask()
        except RPCError as error:
            # One that waited long for its answer did so at a server that was there.
            if since is None or clock() - began > at_most_s:
                since, pause = clock(), FIRST_PAUSE_S
            if not passes(error) or clock() - since + pause > at_most_s:
                raise
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE_S)
