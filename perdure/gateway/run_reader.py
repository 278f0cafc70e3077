"""Reads a run's status, result, records and costs, from its worker or else from the store."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from perdure.domain.budget.journal import AttemptRow, Journal
from perdure.domain.foundation.errors import (
    InvalidInput,
    NoReadyWorker,
    NotAllowed,
    NotFound,
    PerdureError,
    ServiceUnavailable,
    StoreAway,
    StoreError,
)
from perdure.domain.foundation.names import learn_run_id, tools_queue
from perdure.domain.foundation.tolerance import read_stored
from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.run.child_runs import lineage
from perdure.domain.run.cost_report import CostReport, add_up
from perdure.domain.run.result import RunResult, with_value
from perdure.domain.run.status import RunStatus, StoredRun
from perdure.domain.run.take_over import reopened
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.accounting import known_sentence, result_with_books, with_books
from perdure.gateway.dispatch import DISPATCHED, PENDING, dispatch_of
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.namespaces import elsewhere, other_namespace_error, told_elsewhere
from perdure.gateway.open_task import REFUSED
from perdure.gateway.stored_status import (
    LATER_REFUSED,
    away_status,
    may_begin,
    of_result,
    stored_status,
    torn_result,
    torn_status,
)
from perdure.gateway.temporal_gateway import EndedWithoutResult, TemporalGateway
from perdure.gateway.visibility import delay_note
from perdure.gateway.worker_probe import queue_limit

RUNS_ADDED_UP = 1_000
NEWER_S = 2.0
STORED_S = 5.0
BEGINS_S = 1.0
BEGINS = "The run is being started: its task is stored, and the server does not know it yet."


class RunReader:
    """Reads runs; falls back to the store if neither server nor worker answers."""

    def __init__(
        self,
        *,
        server: TemporalGateway,
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
        stored = row is not None and row.ended_at is not None and row.result
        if row is not None and stored and await self._newer_life(row) is None:
            return await self._whole(read_stored(RunResult, stored, what=f"the result of {run}"))
        if not wait:
            look = await self._server.look(run)
            if look is not None and look.open:
                return await self._stored_soon(run, look)
        try:
            found = await self._server.outcome(run)
            if row is not None and row.result is None and found.reason in REFUSED:
                # A later start under this id was refused; what the run did before stands.
                return await self._torn(run, LATER_REFUSED, "")
            return await self._whole(found)
        except EndedWithoutResult as ended:
            return await self._torn(run, ended.ending, ended.why)
        except NotFound:
            if row is None:
                raise
            if away := await elsewhere(self._server, row):
                raise other_namespace_error(run, away) from None
            return await self._of_unknown(row, wait=wait)

    async def _of_unknown(self, row: StoredRun, *, wait: bool) -> RunResult:
        """The result of a run that the server does not know: it begins, or it is gone."""
        if may_begin(row, self._now()) and not wait:
            raise NotAllowed(
                f"The run {row.id} has not begun yet.", cure=f"Follow it: perdure watch {row.id}"
            )
        if await self._begins(row):
            return await self.result(row.id, wait=True)
        return await self._torn(row.id, "unknown", "the server no longer knows it")

    async def _begins(self, row: StoredRun) -> bool:
        """Whether the server gets to know a run whose row is new."""
        while may_begin(row, self._now()):
            await asyncio.sleep(BEGINS_S)
            if await self._server.look(row.id) is not None:
                return True
        return False

    async def _stored_soon(self, run: str, look: ExecutionInfo) -> RunResult:
        """The result of a run that reports its end; it is stored a moment later, so wait for it."""
        follow = f"Follow it: perdure watch {run}"
        if not look.text("PerdureOutcome"):
            raise NotAllowed(f"The run {run} has not ended yet.", cure=follow)
        try:
            async with asyncio.timeout(STORED_S):
                return await self.result(run, wait=True)
        except TimeoutError:
            raise NotAllowed(
                f"The run {run} has ended, and its result is not stored yet.", cure=follow
            ) from None

    async def known(self, run: str) -> str:
        """What the store knows of a run, as a sentence to append; empty if it knows nothing."""
        row = await self._records.run(run)
        if row is None:
            return ""
        status = await self._accounted(stored_status(row))
        return f" {known_sentence(status)}"

    async def records(self, run: str) -> list[IterationRecord]:
        """See `Gateway.records`."""
        texts = await self._records.records(run)
        return [
            read_stored(IterationRecord, text, what=f"iteration {number} of {run}")
            for number, text in enumerate(texts, start=1)
        ]

    async def history(self, run: str) -> bytes:
        """See `Gateway.history_export`."""
        try:
            return (await self._server.history(run)).encode()
        except NotFound:
            if await self._records.run(run) is None:
                raise
            raise NotFound(
                f"The server has no history of {run} any more; its result and costs are kept here.",
                cure="Replay a file: `temporal workflow show --workflow-id ID --output json` "
                "writes one as long as the server has the history.",
            ) from None

    async def costs(self, run: str | None) -> CostReport:
        """See `Gateway.costs`."""
        if run is None:
            found = await self._records.find_runs(limit=RUNS_ADDED_UP)
            runs = [row.id for row in found]
            learners = [learn_run_id(row.id) for row in found if row.kind != "agent"]
            learned = [one for one in learners if one not in set(runs)]
            return add_up(runs, await self._rows(runs), learning=await self._rows(learned))
        rows, learner = await self._tree(run), learn_run_id(run)
        # Learning runs have no row: one of that name that has is a run that somebody called so.
        own = await self._records.run(learner) is not None
        learning = [] if own else await self._rows([learner])
        status = await self._status(run)
        report = add_up([run], rows, learning=learning, budget=status.budget)
        return report.model_copy(update={"source": status.source})

    async def _tree(self, run: str) -> list[AttemptRow]:
        """The rows of a run and of all runs below it; its id says which runs may be its root."""
        for root in lineage(run):
            rows = await self._journal.tree(root=root, run=run)
            if rows:
                return rows
        return []

    async def _rows(self, runs: Sequence[str]) -> list[AttemptRow]:
        return [row for run in runs for row in await self._journal.rows(run)]

    async def _status(self, run: str) -> RunStatus:
        try:
            row = await self._records.run(run)
        except StoreAway as away:
            return await self._without_store(run, away)
        if row is not None and row.ended_at is not None:
            newer = await self._newer_life(row)
            if newer is None:
                return stored_status(row)
            return await self._of_look(run, newer, reopened(row))
        try:
            look = await self._server.look(run)
        except ServiceUnavailable as error:
            if row is None:
                raise
            status = stored_status(row).model_copy(update={"explanation": error.message})
            return await self._accounted(status)
        if look is None:
            if row is None:
                raise NotFound(f"There is no run {run}.", cure="`perdure list` lists all runs.")
            known = stored_status(row)
            if away := await elsewhere(self._server, row):
                told = told_elsewhere(run, away)
                seen = {"explanation": told, "trouble": told, "dispatch": DISPATCHED}
                return await self._accounted(known.model_copy(update=seen))
            if may_begin(row, self._now()):
                return known.model_copy(update={"explanation": BEGINS})
            return await self._accounted(torn_status(known, None))
        return await self._of_look(run, look, row)

    async def _without_store(self, run: str, away: StoreAway) -> RunStatus:
        """The status from the worker, which has the run in memory, while the store is away."""
        try:
            look = await self._server.look(run)
            if look is None or not look.open:
                raise away
            live = await self._server.query(run, "status", RunStatus)
        except ServiceUnavailable as error:
            raise away from error
        trouble = look.trouble.text if look.trouble is not None else away.message
        return live.model_copy(update={"trouble": trouble, "dispatch": DISPATCHED})

    async def _of_look(self, run: str, look: ExecutionInfo, row: StoredRun | None) -> RunStatus:
        status = await self._open_status(run, look, row)
        if status.source == "run":
            return status  # the worker's own answer is the best one
        if not look.open:
            await self._close_books(look)
        return await self._accounted(status)

    async def _newer_life(self, row: StoredRun) -> ExecutionInfo | None:
        """The open execution of a run whose row has ended: somebody reset it at the server.

        The time limit is short: if the server is away, the row has an answer.
        """
        try:
            async with asyncio.timeout(NEWER_S):
                look = await self._server.look(row.id)
        except (TimeoutError, PerdureError):
            return None
        ended = row.ended_at
        # To be open is not enough: a run writes its end into the row a moment before it closes.
        return look if look and look.open and ended and look.started_at > ended else None

    async def _close_books(self, look: ExecutionInfo) -> None:
        """Seal a closed execution, so that nothing can still spend and its sum is final."""
        await self._journal.seal_and_sum(look.execution)

    async def _accounted(self, status: RunStatus) -> RunStatus:
        """A status that is not from a worker, with spend and iterations from the store."""
        rows, records = await self._tree(status.id), await self.records(status.id)
        return with_books(status, rows, records)

    async def _open_status(self, run: str, look: ExecutionInfo, row: StoredRun | None) -> RunStatus:
        """Ask the worker; a closed run without a stored result may still answer."""
        live, sealed = await self._asked(run)
        if look.open:
            known = live or away_status(look, row)
            trouble = look.trouble.text if look.trouble is not None else None
            if sealed is not None:
                known = known.model_copy(update={"explanation": sealed.message})
                trouble = trouble or str(sealed)
            dispatch = delay_note(look, self._now()) or await self._dispatch(look)
            if dispatch == PENDING and known.source == "store":
                dispatch = known.dispatch or dispatch  # at the start, its workers were busy
            return known.model_copy(update={"trouble": trouble, "dispatch": dispatch})
        if live is not None and live.phase == "ended":
            return live
        if row is None and live is None:
            try:
                return of_result(await self._server.outcome(run), goal=look.memo.get("goal", ""))
            except EndedWithoutResult:
                pass
        if live is not None and live.phase == "starting" and row is not None:
            # An execution that was refused under this id knows nothing of the run.
            ending = LATER_REFUSED if look.ending == "failed" else None
            return torn_status(away_status(look, row), look, ending=ending)
        return torn_status(live or away_status(look, row), look)

    async def _asked(self, run: str) -> tuple[RunStatus | None, StoreError | None]:
        """The status from the worker, or the error if this process cannot decrypt it."""
        try:
            return await self._server.query(run, "status", RunStatus), None
        # It is a StoreError too, but heals by itself.
        except StoreAway:
            raise
        except StoreError as error:
            return None, error
        except (NoReadyWorker, ServiceUnavailable):
            return None, None

    async def unserved(self, look: ExecutionInfo) -> str:
        """That no worker takes the tasks of a run, and what to do; empty if one does."""
        told = await self._dispatch(look) if look.open and look.unfetched else DISPATCHED
        return "" if told in {PENDING, DISPATCHED} else told

    async def _dispatch(self, look: ExecutionInfo) -> str:
        installation = await self._records.installation()
        folders = {
            tools_queue(installation, workspace): folder
            for workspace, folder in (await self._records.workspaces()).items()
        }
        waits = look.unfetched
        limit = await queue_limit(self._server, waits.queue) if waits and waits.late else None
        return dispatch_of(
            waits,
            limit=limit,
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
        look = await self._server.look(run) if ending != "unknown" else None
        if look is not None and not look.open:
            await self._close_books(look)
        records = await self.records(run)
        result = torn_result(row, records, ending=ending, why=why)
        if result.ended_at is None and look is not None:
            result = result.model_copy(update={"ended_at": look.closed_at})
        return await self._whole(result_with_books(result, await self._tree(run), records))

    async def _whole(self, result: RunResult) -> RunResult:
        """Add what the workflow left out of its return value."""
        # Only the stored records are complete: they say where a fork can start.
        kept = await self.records(result.id)
        iterations = kept if len(kept) >= len(result.iterations) else result.iterations
        output = result.output
        if result.output_ref is not None and (output is None or result.excerpt):
            whole = await self._text(result.output_ref)
            output, excerpt = (output, result.excerpt) if whole is None else (whole, False)
            result = result.model_copy(update={"output": output, "excerpt": excerpt})
        return with_value(result.model_copy(update={"iterations": tuple(iterations)}))

    async def _text(self, address: str) -> str | None:
        try:
            return await self._blobs.get_text(address)
        except (InvalidInput, NotFound, StoreError):
            return None  # the excerpt in the row is shown then


def _ended_dispatch(status: RunStatus) -> RunStatus:
    """The status of an ended run, marked as dispatched unless its start failed."""
    if status.phase != "ended" or status.dispatch not in {"", PENDING}:
        return status
    return status.model_copy(update={"dispatch": DISPATCHED})
