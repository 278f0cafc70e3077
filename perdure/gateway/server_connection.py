"""The connection to the server: made at first use, and once for all parts of the gateway.

Requests through it wait while the server has no room for them, or is away for a while.
"""

import asyncio
import atexit
import random
import re
import time
from collections.abc import Awaitable, Callable
from functools import cache
from typing import TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import PerdureError, ServiceUnavailable
from perdure.domain.foundation.plain_text import cause_in_words
from perdure.gateway.error_mapping import unreachable

Connect = Callable[[], Awaitable[Client]]
T = TypeVar("T")

# A server that was silent for so long is not tried again at once, as a command asks several times.
SILENT_S = 2.0
AWAY_KNOWN_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
# Longer than the client by itself tries to send a request.
OWN_RETRIES_S = 60.0
# The same status says that a request is too large, which no waiting makes smaller.
_TOO_LARGE = re.compile(r"larger than max|message too large", re.IGNORECASE)


class ServerConnection:
    """Connects at first use, so that the store stays readable while the server is away."""

    def __init__(self, connect: Connect, address: str) -> None:
        self.address = address
        self._connect = connect
        self._client: Client | None = None
        self._away: tuple[float, PerdureError] | None = None
        self._connecting = asyncio.Lock()

    @property
    def namespace(self) -> str:
        """The namespace of the client; the usual one before it is connected."""
        return "default" if self._client is None else self._client.namespace

    async def client(self) -> Client:
        """The connected client; raises `ServiceUnavailable`."""
        # One at a time: each of several first requests would open a connection of its own.
        async with self._connecting:
            if self._client is None:
                self._client = await self._first_client()
                pause_at_exit()
            return self._client

    async def _first_client(self) -> Client:
        """Connect; if the server was silent a moment ago, raise the same error at once."""
        began = time.monotonic()
        if self._away is not None and began < self._away[0]:
            raise self._away[1]
        try:
            return await self._connect()
        except ServiceUnavailable as error:
            self._remember(began, error)
            raise
        # The SDK's core raises RuntimeError if it cannot connect.
        except (RuntimeError, RPCError, OSError) as error:
            why = cause_in_words(error, otherwise="the connection failed")
            away = unreachable(self.address, why)
            self._remember(began, away)
            raise away from error

    def _remember(self, began: float, error: PerdureError) -> None:
        if (now := time.monotonic()) - began >= SILENT_S:
            self._away = (now + AWAY_KNOWN_S, error)


@cache
def pause_at_exit() -> None:
    """Have this process pause before it exits: right after a client or replayer it may crash."""
    atexit.register(time.sleep, 0.2)  # measured: 6 crashes in 50 exits without it, none with it


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
            if since is None or clock() - began > max(at_most_s, OWN_RETRIES_S):
                since, pause = clock(), FIRST_PAUSE_S
            if not passes(error) or clock() - since + pause > at_most_s:
                raise
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, LONGEST_PAUSE_S)
