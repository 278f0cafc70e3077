"""The connection to the server: made at first use, and once for all parts of the gateway."""

import asyncio
import atexit
import time
from collections.abc import Awaitable, Callable
from functools import cache

from temporalio.client import Client
from temporalio.service import RPCError

from perdure.domain.foundation.errors import PerdureError, ServiceUnavailable
from perdure.domain.foundation.plain_text import cause_in_words
from perdure.gateway.error_mapping import unreachable

Connect = Callable[[], Awaitable[Client]]

# A server that was silent for so long is not tried again at once, as a command asks several times.
SILENT_S = 2.0
AWAY_KNOWN_S = 10.0


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
