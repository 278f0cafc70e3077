"""Waits while the server has no room for a request: over the rate of the namespace, or loaded."""

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


async def while_busy(ask: Callable[[], Awaitable[T]], *, at_most_s: float) -> T:
    """Send a request again while the server has no room for it, with growing random pauses.

    The client's own retries, of about 15 s, count in.

    Args:
        ask: sends the request.
        at_most_s: after so many seconds the refusal is raised.

    Raises:
        RPCError: the request failed for another reason, or the server had no room for too long.
    """
    clock, pause = asyncio.get_running_loop().time, FIRST_PAUSE_S
    began = clock()
    while True:
        try:
            return await ask()
        except RPCError as error:
            if not is_busy(error) or clock() - began + pause > at_most_s:
                raise
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE_S)
