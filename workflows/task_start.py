"""The loops as any Temporal client starts them: a task alone, on the installation's own queue.

These classes have the names of the loops and are served on another queue. They read the task, write
the run's row, and continue as new in the loop itself, on the queue of the installation that read
it. What people say in between goes along.
"""

import asyncio
from typing import NoReturn

from temporalio import workflow
from temporalio.common import SearchAttributeKey

from perdure.activities.open_task import OpenTask
from perdure.domain.agent.state import AgentInput
from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.delegation.state import DelegationInput
from perdure.domain.foundation.names import SCHEDULED_BY, LoopKind
from perdure.domain.foundation.tolerance import read, read_value
from perdure.domain.refine.state import RefineInput
from perdure.domain.roles.state import RoleInput
from perdure.domain.run.messages import AnyMessage
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import Beforehand, CommonSpec, LoopInput, Placement
from perdure.domain.run.state import LoopState
from perdure.domain.run.task_start import (
    OPENING,
    TAKEN_BEFORE,
    OpenTaskReport,
    OpenTaskRequest,
    TaskInput,
)
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.control import Control
from perdure.workflows.engine.handlers import ControlHandlers
from perdure.workflows.engine.lifecycle import failure_of
from perdure.workflows.engine.run import Run, upsert

_SCHEDULED_BY = SearchAttributeKey.for_keyword(SCHEDULED_BY)
INPUTS: dict[str, type[LoopInput]] = {
    "agent": AgentInput,
    "refine": RefineInput,
    "roles": RoleInput,
    "delegation": DelegationInput,
}


class UnopenedRun(Run[CommonSpec, LoopState]):
    """A run of which only the task is there, unread; it can be paused, stopped and spoken to."""

    def __init__(self, given: TaskInput, kind: LoopKind) -> None:
        info = workflow.info()
        # Its only step is one of bookkeeping, on the queue that it was started on itself.
        here = Placement(loops=info.task_queue, models="", tools="")
        state = LoopState(started_at=workflow.now(), budget=Budget(limits=BudgetLimits()))
        spec = CommonSpec(goal=given.goal)
        super().__init__(
            LoopInput(run=info.workflow_id, site=here),
            kind=kind,
            spec=spec,
            state=None,
            fresh=state,
        )
        self.task = given.task

    @property
    def iteration(self) -> int:
        """0: no iteration has begun."""
        return 0

    @property
    def iteration_limit(self) -> int | None:
        """None yet: the task is not read."""
        return None

    def message_refusal(self, message: AnyMessage) -> str | None:
        """Take what counts for any task; the rest is about what is not known yet."""
        return None if isinstance(message, TAKEN_BEFORE) else OPENING


class TaskStart(ControlHandlers):
    """Opens a run; what the four workflows below share."""

    wanted = (
        'The input is one JSON object, the task, at least {"goal": "…"}: the fields of a task file.'
    )

    def begin(self, given: TaskInput, kind: LoopKind) -> None:
        """Keep the task unread; an activity reads it."""
        self.run = UnopenedRun(given, kind)
        self.control = Control(self.run)
        self.was_reset = False
        workflow.register_random_seed_callback(self._reseeded)

    def _reseeded(self, seed: int) -> None:
        # A reset to after the task was read: the run that it went on as has been under way.
        self.was_reset = True

    async def open(self) -> RunResult:
        """Read the task and go on as the loop that it asks for.

        Returns:
            The result of the run that had this id and this task before.

        Raises:
            ApplicationError: the task was refused; the details hold the failed run's result.
        """
        run = self.run
        run.show_panel()
        opening = workflow.start_activity_method(
            OpenTask.open_task,
            OpenTaskRequest(
                kind=run.kind,
                task=run.task,
                chain=workflow.info().first_execution_run_id,
                schedule=workflow.info().typed_search_attributes.get(_SCHEDULED_BY, ""),
            ),
            **activity_options.store_step(run.site, summary="open the task"),
        )
        while not opening.done():
            try:
                await workflow.wait([opening])
            except asyncio.CancelledError:
                # The next execution would not hear of it, and the run would go on.
                run.state.control.stop = "now"
                run.state.control.stopped_by = "cancellation"
        report = await opening
        if report.result is None:
            self._go_on(report)
        result = read(RunResult, report.result)
        if result.outcome in {"failed", "blocked"}:
            raise failure_of(result)
        return result

    def _go_on(self, report: OpenTaskReport) -> NoReturn:
        workflow.upsert_memo(report.memo)
        if report.tenant:
            upsert({"PerdureTenant": report.tenant})
        state = self.run.state
        said = Beforehand(
            control=state.control, ring=state.ring.carried(), was_reset=self.was_reset
        )
        # Typed, so that every client's converter writes it as the loop reads it.
        given = read_value(INPUTS[self.run.kind], report.input)
        chain = workflow.info().first_execution_run_id
        going_on = given.model_copy(update={"beforehand": said, "chain": chain})
        workflow.continue_as_new(going_on, task_queue=report.queue)


@workflow.defn(name="AgentLoop")
class AgentTask(TaskStart):
    """Starts an agent loop from its task."""

    @workflow.init
    def __init__(self, given: TaskInput) -> None:
        self.begin(given, "agent")

    @workflow.run
    async def execute(self, given: TaskInput) -> RunResult:
        """Open the run; `__init__` has taken the task."""
        return await self.open()


@workflow.defn(name="RefineLoop")
class RefineTask(TaskStart):
    """Starts a refine loop from its task."""

    @workflow.init
    def __init__(self, given: TaskInput) -> None:
        self.begin(given, "refine")

    @workflow.run
    async def execute(self, given: TaskInput) -> RunResult:
        """Open the run; `__init__` has taken the task."""
        return await self.open()


@workflow.defn(name="RoleLoop")
class RoleTask(TaskStart):
    """Starts a loop of roles from its task."""

    @workflow.init
    def __init__(self, given: TaskInput) -> None:
        self.begin(given, "roles")

    @workflow.run
    async def execute(self, given: TaskInput) -> RunResult:
        """Open the run; `__init__` has taken the task."""
        return await self.open()


@workflow.defn(name="DelegationLoop")
class DelegationTask(TaskStart):
    """Starts a delegation loop from its task."""

    @workflow.init
    def __init__(self, given: TaskInput) -> None:
        self.begin(given, "delegation")

    @workflow.run
    async def execute(self, given: TaskInput) -> RunResult:
        """Open the run; `__init__` has taken the task."""
        return await self.open()


TASK_STARTS = (AgentTask, RefineTask, RoleTask, DelegationTask)
