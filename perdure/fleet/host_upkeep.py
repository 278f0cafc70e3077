"""Upkeep of one of several hosts: removes the working folders of ended runs and killed workers.

`perdure gc` removes only the folders of its own host. With several hosts, each worker looks after
its own host, or the other disks would fill up.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from perdure.adapters.workspaces.local import LocalWorkspaces
from perdure.adapters.workspaces.release import released
from perdure.domain.foundation.errors import StoreError
from perdure.domain.ports import RecordStore
from perdure.event_log import get_logger

EVERY_S = 600.0
# A run that is retried within this time still finds files that snapshots leave out.
KEPT = timedelta(hours=1)
_log = get_logger(__name__)


async def release_ended(
    workspaces: LocalWorkspaces, records: RecordStore, *, now: datetime
) -> list[str]:
    """Remove folders of runs that ended at least `KEPT` ago; returns these runs.

    The files are in the store too, so a run that is retried makes its folder again. A folder that
    cannot be removed stays, and is tried again the next time.
    """
    gone: list[str] = []
    for run, made in (await workspaces.runs()).items():
        row = await records.run(run)
        # A deleted run has no row, and neither has one whose folder was made a moment ago.
        unused = made if row is None else row.ended_at
        due = unused is not None and unused <= now - KEPT
        if due and await released(workspaces, run):
            gone.append(run)
    await workspaces.remove_unfinished()
    return gone


async def look_after_folders(
    workspaces: LocalWorkspaces,
    records: RecordStore,
    stop: asyncio.Event,
    *,
    now: Callable[[], datetime],
    every_s: float = EVERY_S,
) -> None:
    """Release folders periodically until `stop` is set."""
    # One task for all pauses, so that a stop ends a pause of ten minutes at once.
    stopped = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            await _release(workspaces, records, now())
            await asyncio.wait({stopped}, timeout=every_s)
    finally:
        stopped.cancel()


async def _release(workspaces: LocalWorkspaces, records: RecordStore, now: datetime) -> None:
    try:
        gone = await release_ended(workspaces, records, now=now)
    except (StoreError, OSError) as error:
        _log.warning("folders_not_released", why=str(error))
        return
    if gone:
        _log.info("folders_released", count=len(gone))
