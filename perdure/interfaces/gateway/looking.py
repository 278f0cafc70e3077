"""One look at a run, its result, its records and its costs: from the worker, else the store."""

from collections.abc import Callable, Sequence
from datetime import datetime

from perdure.domain.children import lineage
from perdure.domain.costs import CostReport, add_up
from perdure.domain.errors import (
    NoReadyWorker,
    NotAllowed,
    NotFound,
    ServiceUnavailable,
    StoreError,
)
from perdure.domain.names import learn_run_id, tools_queue
from perdure.domain.ports import AttemptRow, BlobStore, Journal, RecordStore, StoredRun
from perdure.domain.result import IterationRecord, RunResult
from perdure.domain.status import RunStatus
from perdure.interfaces.gateway.dispatch import DISPATCHED, PENDING, dispatch_of
from perdure.interfaces.gateway.server import Ended, Look, Server
from perdure.interfaces.gateway.statuses import (
    away_status,
    of_result,
    stored_status,
    torn_result,
    torn_status,
)

RUNS_ADDED_UP = 1_000


class Looking:
    """Answers what a run does, gave and cost; the store answers where nobody else can."""

    def __init__(
        self,
        *,
        server: Server,
        blobs: BlobStore,
        records: RecordStore,
        journal: Journal,
        links: Callable[[str], dict[str, str]],
        worker_command: Callable[[str | None], str],
        now: Callable[[], datetime],
    ) -> None:
        self._server = server
        self._blobs = blobs
        self._records = records
        self._journal = journal
        self._links = links
        self._worker_command = worker_command
        self._now = now

    async def status(self, run: str) -> RunStatus:
        """See `Gateway.status`."""
        found = _ended_dispatch(await self._status(run))
        return found.model_copy(update={"links": {**found.links, **self._links(run)}})

    async def result(self, run: str, *, wait: bool) -> RunResult:
        """See `Gateway.result`."""
        row = await self._records.run(run)
        if row is not None and row.ended_at is not None and row.result:
            return await self._whole(RunResult.model_validate_json(row.result))
        if not wait:
            look = await self._server.look(run)
            if look is not None and look.open:
                raise NotAllowed(
                    f"The run {run} has not ended yet.", cure=f"Follow it: perdure watch {run}"
                )
        try:
            return await self._whole(await self._server.outcome(run))
        except Ended as ended:
            return await self._torn(run, ended.ending, ended.why)
        except NotFound:
            if row is None:
                raise
            return await self._torn(run, "unknown", "the server no longer knows it")

    async def records(self, run: str) -> list[IterationRecord]:
        """See `Gateway.records`."""
        texts = await self._records.records(run)
        return [IterationRecord.model_validate_json(text) for text in texts]

    async def costs(self, run: str | None) -> CostReport:
        """See `Gateway.costs`."""
        if run is None:
            found = await self._records.find_runs(limit=RUNS_ADDED_UP)
            learned = [learn_run_id(row.id) for row in found if row.kind != "agent"]
            runs = [row.id for row in found]
            return add_up(runs, await self._rows(runs), learning=await self._rows(learned))
        rows, learning = await self._tree(run), await self._rows([learn_run_id(run)])
        status = await self._status(run)
        report = add_up([run], rows, learning=learning, budget=status.budget)
        return report.model_copy(update={"source": status.source})

    async def _tree(self, run: str) -> list[AttemptRow]:
        """The rows of a run and of all below it; its id says which runs may be its root."""
        for root in lineage(run):
            rows = await self._journal.tree(root=root, run=run)
            if rows:
                return rows
        return []

    async def _rows(self, runs: Sequence[str]) -> list[AttemptRow]:
        return [row for run in runs for row in await self._journal.rows(run)]

    async def _status(self, run: str) -> RunStatus:
        row = await self._records.run(run)
        if row is not None and row.ended_at is not None:
            return stored_status(row)
        try:
            look = await self._server.look(run)
        except ServiceUnavailable as error:
            if row is None:
                raise
            return stored_status(row).model_copy(update={"explanation": error.message})
        if look is None:
            if row is None:
                raise NotFound(
                    f"There is no run {run}.", cure="`perdure list` shows what there is."
                )
            return torn_status(stored_status(row), None)
        return await self._open_status(run, look, row)

    async def _open_status(self, run: str, look: Look, row: StoredRun | None) -> RunStatus:
        """Ask the worker; a closed run without a stored result may still answer."""
        try:
            live = await self._server.query(run, "status", RunStatus)
        except (NoReadyWorker, ServiceUnavailable):
            live = None
        if look.open:
            known = live or away_status(look, row)
            trouble = look.trouble.text if look.trouble is not None else None
            dispatch = await self._dispatch(look)
            if dispatch == PENDING and known.source == "store":
                dispatch = known.dispatch or dispatch  # why it waits, as its start told
            return known.model_copy(update={"trouble": trouble, "dispatch": dispatch})
        if live is not None and live.phase == "ended":
            return live
        if row is None and live is None:
            try:
                return of_result(await self._server.outcome(run), goal=look.memo.get("goal", ""))
            except Ended:
                pass
        return torn_status(live or away_status(look, row), look)

    async def _dispatch(self, look: Look) -> str:
        installation = await self._records.installation()
        folders = {
            tools_queue(installation, workspace): folder
            for workspace, folder in (await self._records.workspaces()).items()
        }
        return dispatch_of(
            look.unfetched,
            history_length=look.history_length,
            folders=folders,
            worker_command=self._worker_command,
        )

    async def _torn(self, run: str, ending: str, why: str) -> RunResult:
        row = await self._records.run(run)
        if row is None:
            raise NotFound(
                f"The run {run} ended without a result ({why}), and the store has nothing of it.",
                cure="Look at its history in Temporal's Web UI.",
            )
        result = torn_result(row, await self.records(run), ending=ending, why=why)
        return await self._whole(result)

    async def _whole(self, result: RunResult) -> RunResult:
        """Put back what was left out of the workflow's own return value."""
        # The stored records are the whole ones: only they say where a fork can start.
        kept = await self.records(result.id)
        iterations = kept if len(kept) >= len(result.iterations) else result.iterations
        output = result.output
        if result.output_ref is not None and (output is None or result.truncated):
            output = await self._text(result.output_ref) or output
        return result.model_copy(update={"iterations": tuple(iterations), "output": output})

    async def _text(self, address: str) -> str | None:
        try:
            return await self._blobs.get_text(address)
        except (NotFound, StoreError):
            return None


def _ended_dispatch(status: RunStatus) -> RunStatus:
    """What an ended run's work came to: taken, unless its start failed."""
    if status.phase != "ended" or status.dispatch not in {"", PENDING}:
        return status
    return status.model_copy(update={"dispatch": DISPATCHED})
