"""Decides when the services are idle: no run is open, and no command used them for a while."""

import asyncio
import time
from contextlib import suppress
from datetime import timedelta

from temporalio.client import Client

from perdure.domain.foundation.names import OPEN_EXECUTION
from perdure.local_services.state import HomeFiles
from perdure.local_services.temporal_server import OPEN_OURS, count_open

CHECK_S = 15.0


async def until_idle(
    client: Client, files: HomeFiles, *, after: timedelta | None, shared: bool
) -> None:
    """Return once no run was open, and no command used the services, for `after`; None: never.

    On a server that is shared with others only Perdure's runs count.
    """
    touch(files)
    busy = time.monotonic()
    if after is None:
        await asyncio.Event().wait()
        return
    pause = min(CHECK_S, after.total_seconds() / 2)
    while min(since_use(files), time.monotonic() - busy) < after.total_seconds():
        await asyncio.sleep(pause)
        # If the server cannot tell, the services count as busy.
        if await count_open(client, OPEN_OURS if shared else OPEN_EXECUTION) != 0:
            busy = time.monotonic()
            touch(files)


def touch(files: HomeFiles) -> None:
    """Record that the services are used now; a full disk must not prevent their use."""
    with suppress(OSError):
        files.used.touch()


def since_use(files: HomeFiles) -> float:
    """Seconds since the last use of the services."""
    try:
        return max(0.0, time.time() - files.used.stat().st_mtime)
    except FileNotFoundError:
        return 0.0
