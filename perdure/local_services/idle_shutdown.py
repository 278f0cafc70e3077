"""When nobody needs the services any more: no open run, and nobody asked for a while."""

import asyncio
import time
from contextlib import suppress
from datetime import timedelta

from temporalio.client import Client

from perdure.local_services.state import HomeFiles
from perdure.local_services.temporal_server import RUNNING, RUNNING_OURS, count_open

CHECK_S = 15.0


async def until_idle(
    client: Client, files: HomeFiles, *, after: timedelta | None, shared: bool
) -> None:
    """Return once no run was open and nobody asked for `after`; with None never.

    On a server shared with others only Perdure's runs count.
    """
    touch(files)
    busy = time.monotonic()
    if after is None:
        await asyncio.Event().wait()
        return
    pause = min(CHECK_S, after.total_seconds() / 2)
    while min(since_use(files), time.monotonic() - busy) < after.total_seconds():
        await asyncio.sleep(pause)
        # A server that cannot tell now counts as busy.
        if await count_open(client, RUNNING_OURS if shared else RUNNING) != 0:
            busy = time.monotonic()
            touch(files)


def touch(files: HomeFiles) -> None:
    """Note that the services are in use now; a full disk keeps nobody from using them."""
    with suppress(OSError):
        files.used.touch()


def since_use(files: HomeFiles) -> float:
    """Seconds since somebody used the services."""
    try:
        return max(0.0, time.time() - files.used.stat().st_mtime)
    except FileNotFoundError:
        return 0.0
