"""Decides when the services are idle.

No run is open, no schedule is going to start one, and no command used them for a while.
"""

import asyncio
import time
from contextlib import suppress
from datetime import timedelta

from temporalio.client import Client

from perdure.domain.foundation.names import OPEN_EXECUTION
from perdure.local_services.state import HomeFiles
from perdure.local_services.temporal_server import OPEN_OURS, count_open, starts_ahead

CHECK_S = 15.0


async def until_idle(
    client: Client, files: HomeFiles, *, after: timedelta | None, shared: bool
) -> int | None:
    """Return the last use once nothing needed the services for `after`; None: never.

    Open runs, schedules and commands need them. On a server that is shared with others only
    Perdure's runs and schedules count.
    """
    touch(files)
    if after is None:
        await asyncio.Event().wait()
        return None
    busy, seen = time.monotonic(), last_use(files)
    pause = min(CHECK_S, after.total_seconds() / 2)
    while time.monotonic() - busy < after.total_seconds():
        await asyncio.sleep(pause)
        if await _is_needed(client, shared=shared):
            touch(files)
            busy = time.monotonic()
        # The time of a use is compared with itself only: the clock of the host may be set.
        if (used := last_use(files)) != seen:
            busy, seen = time.monotonic(), used
    return seen


async def _is_needed(client: Client, *, shared: bool) -> bool:
    # If the server cannot tell, the services count as needed.
    if await count_open(client, OPEN_OURS if shared else OPEN_EXECUTION) != 0:
        return True
    return await starts_ahead(client, ours=shared) is not False


def touch(files: HomeFiles) -> None:
    """Record that the services are used now; a full disk must not prevent their use."""
    with suppress(OSError):
        files.used.touch()


def last_use(files: HomeFiles) -> int | None:
    """When the services were last used by the clock of that moment, in ns; None: unknown."""
    try:
        return files.used.stat().st_mtime_ns
    except FileNotFoundError:
        return None
