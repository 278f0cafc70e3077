"""The workers of workspace folders: each polls only while its folder is in use.

A worker costs a thread, a megabyte and pollers at the server, even if it has nothing to do.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from temporalio.worker import Worker

from perdure.adapters.workspaces.local import LocalWorkspaces
from perdure.adapters.workspaces.release import try_release
from perdure.domain.foundation.errors import StoreError
from perdure.domain.ports import RecordStore
from perdure.event_log import get_logger

_log = get_logger(__name__)

EVERY_S = 600.0
# A run that is retried within this time still finds files that snapshots leave out.
KEPT = timedelta(hours=1)


class WorkspaceWorkers:
    """Starts and ends workers inside one task; leaving the block ends all of them.

    `make` gets the id of a workspace and its folder.
    """

    def __init__(self, make: Callable[[str, str], Worker]) -> None:
        self._make = make
        self._serving: dict[str, Worker] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}

    @property
    def served(self) -> frozenset[str]:
        """The ids of the workspaces whose queues are polled."""
        return frozenset(self._serving)

    @property
    def queues(self) -> list[str]:
        return sorted(worker.task_queue for worker in self._serving.values())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        async with AsyncExitStack() as stack:
            for task in self._leaving.values():
                # Waited for, not awaited: one that fails must not keep the others from their ends.
                stack.push_async_callback(asyncio.wait, {task})
            for worker in self._serving.values():
                # Pass on why the block ends: a worker that caused it then raises its own error.
                stack.push_async_callback(worker.__aexit__, exc_type, exc, traceback)

    async def serve(self, wanted: Mapping[str, str]) -> None:
        """Serve exactly these folders, by id; workers of others finish their work and end."""
        # Over a copy, as retiring one changes `_serving`.
        for workspace in self.served - wanted.keys():
            self._retire(workspace)
        for workspace, folder in wanted.items():
            # A process may have only one worker for a queue, so wait while the old one drains.
            if workspace not in self._serving and workspace not in self._leaving:
                # In this task: when a worker fails, the SDK cancels the task that started it.
                worker = await self._make(workspace, folder).__aenter__()
                self._serving[workspace] = worker
                _log.info("worker_serves", folder=folder, queue=worker.task_queue)

    async def shutdown(self) -> None:
        """Stop polling, and finish the work in progress."""
        # Together with those that leave already, so that the grace period passes once.
        draining = [worker.shutdown() for worker in self._serving.values()]
        await asyncio.gather(*draining, *self._leaving.values())

    def _retire(self, workspace: str) -> None:
        worker = self._serving.pop(workspace)
        leaving = asyncio.create_task(worker.__aexit__(None, None, None))
        self._leaving[workspace] = leaving
        leaving.add_done_callback(lambda _: self._leaving.pop(workspace))
        _log.info("workspace_retired", workspace=workspace)


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
        if due and await try_release(workspaces, run):
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
