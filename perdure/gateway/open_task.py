"""Opens a run that a Temporal client started with only a task.

The execution exists already, so nothing is started and no queue is probed. The task is checked, the
row of the run is claimed, and the workflow gets the input with which it goes on.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol

from pydantic import JsonValue

from perdure.domain.evaluation.outcomes import Outcome, explain, lifecycle
from perdure.domain.foundation.errors import (
    InvalidInput,
    ModelUnavailable,
    MonthSpent,
    NoRoom,
    NotAllowed,
    NotFound,
    PerdureError,
    StoreAway,
)
from perdure.domain.foundation.names import WORKFLOW_TYPES
from perdure.domain.foundation.problems import format_value
from perdure.domain.foundation.tolerance import read_stored
from perdure.domain.model_availability import unserved
from perdure.domain.ports import RecordStore
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import Placement
from perdure.domain.run.status import StoredRun
from perdure.domain.run.task_start import OpenTaskReport, OpenTaskRequest, TaskInput
from perdure.domain.specs import Spec
from perdure.gateway.admission import Room
from perdure.gateway.claim_run_id import Wish, checked_id, key_digest, require_same
from perdure.gateway.readiness import uncallable
from perdure.gateway.start import TRIES, Starter, digest_of, order_of
from perdure.gateway.types import ResolveModels, SettleRun

ReadSpec = Callable[[Mapping[str, JsonValue]], Awaitable[Spec]]
REFUSALS = (InvalidInput, ModelUnavailable, NotAllowed, NotFound)
FAILED: Outcome = "failed"
INVALID_TASK = "invalid_task"
MONTH_SPENT = "month_spent"


NO_ROOM = "no_room"
REASONS: Mapping[type[PerdureError], str] = {MonthSpent: MONTH_SPENT, NoRoom: NO_ROOM}
REFUSED = frozenset({INVALID_TASK, *REASONS.values()})


class Admit(Protocol):
    """Admits a start of a schedule within its monthly budget."""

    async def __call__(self, schedule: str, run: str, spec: Spec, *, room: Room | None) -> Spec:
        """The specification, its budget lowered to what is left of the month.

        Args:
            schedule: the id of the Temporal schedule that started the run.
            run: the id of the run.
            spec: the specification that it was started with.
            room: checks the limit of open runs; None if the run is admitted already.

        Raises:
            MonthSpent: nothing is left of the month.
            NoRoom: the limit of open runs is reached, and the settings refuse more.
            ServiceUnavailable: the limit of open runs is reached, and the start has to wait.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class TaskOpening:
    """Opens runs that were started with only a task.

    Args:
        starter: places runs and makes their rows.
        records: rows of runs.
        read: makes a specification from the fields of a task, or raises what is wrong with them.
        resolve: fills in the models and tools of this worker.
        settle: finds the session and project of the run.
        lacks: families of models that this worker cannot call, with the reasons.
        admit: says what a run of a schedule may spend.
        now: the clock.
    """

    starter: Starter
    records: RecordStore
    read: ReadSpec
    resolve: ResolveModels
    settle: SettleRun
    lacks: Callable[[], Mapping[str, str]]
    admit: Admit
    now: Callable[[], datetime]

    async def open(self, run: str, asked: OpenTaskRequest) -> OpenTaskReport:
        """The input of the run, or its result if it was refused or ran before."""
        try:
            checked_id(run)
            spec = await self.read(_fields(asked))
            wish = Wish(run=run, key=_chain_key(asked), digest=digest_of(spec, None))
            return await self._opened(run, spec, wish, schedule=asked.schedule)
        # Other errors are no fault of the task: the step fails, and the server repeats it.
        except REFUSALS as error:
            return await self._store_refusal(run, asked, error)

    async def _opened(self, run: str, spec: Spec, asked: Wish, *, schedule: str) -> OpenTaskReport:
        """Claim the row of the run, unless there was a run with this id before."""
        for _ in range(TRIES):
            row = await self.records.run(run)
            if row is not None and await self._is_over_or_at_work(row, asked):
                return OpenTaskReport(result=result_of_same(row, asked))
            if row is None:
                await self.starter.claims.require_unused(run)
            ready = await self.resolve(spec, None)
            site = _by_step(await self.starter.site(ready))
            if without := unserved(ready, self.lacks()):
                raise uncallable(without)
            settled = await self.settle(ready, run)
            if schedule:
                # A retry of this step: its first attempt has admitted the run already.
                placed = row is not None and not was_refused(row)
                room = partial(
                    self.starter.admission.claim_room, ready.metadata.payer, queue=site.loops
                )
                settled = await self.admit(schedule, run, settled, room=None if placed else room)
            order = order_of(settled, run, site, digest=asked.digest)
            new = await self.starter.row(settled, run, None, asked, busy=None)
            if await self.starter.claims.claim(new, seen=row):
                told = order.input.model_dump(mode="json", by_alias=True)
                return OpenTaskReport(
                    input=told,
                    queue=order.queue,
                    memo=dict(order.memo),
                    tenant=order.keywords.get("PerdureTenant", ""),
                )
        raise StoreAway(
            f"The row of {run} changes too often to be claimed; the step is tried again."
        )

    async def _is_over_or_at_work(self, row: StoredRun, asked: Wish) -> bool:
        """Whether a run of this id has begun: under an earlier start, or before a reset.

        A reset to before the task was read begins the chain of executions anew, and the loop that
        would follow knows nothing of what those before it spent.
        """
        if was_refused(row):
            return False
        return row.start_key != asked.key or await self.starter.claims.had_effect(row)

    async def _store_refusal(
        self, run: str, asked: OpenTaskRequest, error: PerdureError
    ) -> OpenTaskReport:
        """Store the run as failed without cost: lists show it, and its id stays free."""
        now = self.now()
        reason = REASONS.get(type(error), INVALID_TASK)
        result = RunResult(
            id=run,
            kind=asked.kind,
            outcome=FAILED,
            reason=reason,
            explanation=explain(FAILED, reason, f"{error}"),
            error=f"{error.code}: {error}",
            started_at=now,
            ended_at=now,
        )
        told = result.model_dump_json()
        row = StoredRun(
            id=run,
            kind=asked.kind,
            goal=TaskInput.model_validate(asked.task).goal,
            label=None,
            lifecycle=lifecycle(FAILED),
            outcome=FAILED,
            started_at=now,
            ended_at=now,
            result=told,
        )
        # If another run has this id already, its row stays as it is; one that is gone gets none.
        if not await self.starter.claims.journal.is_used(run):
            await self.records.claim_run(row, seen=None)
        return OpenTaskReport(result=told)


def _by_step(site: Placement) -> Placement:
    """Set priority and fairness on each step: those of an existing execution cannot be changed."""
    if site.turn is None:
        return site
    return site.model_copy(update={"turn": site.turn.model_copy(update={"by_step": True})})


def _fields(asked: OpenTaskRequest) -> Mapping[str, JsonValue]:
    """The fields of a task, with the kind of its workflow type.

    Raises:
        InvalidInput: the task is no object, or names another kind.
    """
    task, kind = asked.task, asked.kind
    if not isinstance(task, dict):
        raise InvalidInput(
            f"The task is {format_value(task)} instead of a JSON object.",
            cure='Send the JSON of a task file, at least {"goal": "…"}.',
        )
    said = task.get("kind", kind)
    if said != kind:
        other = WORKFLOW_TYPES.get(said) if isinstance(said, str) else None
        hint = f"Start the workflow type {other}, or leave" if other else "Leave"
        raise InvalidInput(
            f"kind: found {format_value(said)}; the workflow type {WORKFLOW_TYPES[kind]} runs "
            f"{kind}.",
            cure=f"{hint} out `kind`.",
        )
    return {**task, "kind": kind}


def was_refused(row: StoredRun) -> bool:
    """Whether a run was refused before it began; then its id is free."""
    return (
        row.result is not None
        and read_stored(RunResult, row.result, what=f"the result of {row.id}").reason in REFUSED
    )


def result_of_same(row: StoredRun, asked: Wish) -> str:
    """The result of an earlier run with this id, so that the same task is not paid for twice.

    Raises:
        NotAllowed: the run had another task, or left no result.
    """
    require_same(row.id, row.digest, asked, what="The id belongs to the")
    if row.result is None:
        raise NotAllowed(
            f"The run {row.id} was started from this task before, and has left no result.",
            cure=f"Take it up with `perdure retry {row.id}`, or start under another id.",
        )
    return row.result


def _chain_key(asked: OpenTaskRequest) -> str:
    """A key that is the same for a retried step or a reset run, but not for another run."""
    return key_digest(f"chain:{asked.chain}")
