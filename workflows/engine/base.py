"""How every loop lives: checkpoints, pauses, clocks, rolling over, ending.

Between any two steps a loop passes `checkpoint`: it waits while paused, asks people what is to be
asked, looks at the clocks, and continues as new when the history has grown. A subclass says what
its state and its own next steps are.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.activities.run_lifecycle import Finish, Snapshot
from perdure.domain.budget import envelope as budgets
from perdure.domain.evaluation.outcomes import lifecycle
from perdure.domain.foundation.redaction import redacted
from perdure.domain.run import control as rules
from perdure.domain.run.bookkeeping_messages import FinishRequest, SnapshotReport, SnapshotRequest
from perdure.domain.run.control import Phase
from perdure.domain.run.gates import END, Gate
from perdure.domain.run.missing import counted, lacking
from perdure.domain.run.result import RunResult, with_reply_facts, with_value
from perdure.domain.run.search_attributes import search_attributes, told_label
from perdure.domain.run.spec import LoopInput
from perdure.domain.run.state import RECORDS_KEPT
from perdure.domain.run.status_views import panel
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.search_attributes import upsert
from perdure.workflows.engine.setup import Setup
from perdure.workflows.engine.step_runner import Completed
from perdure.workflows.engine.take_over import Superseded

T = TypeVar("T")
DELIVERY_S = 60.0


class Loop(Setup):
    """A durable loop; holds ids, scores, counters and hashes, never a conversation."""

    given: LoopInput
    published: dict[str, object]
    shown: RunResult | None = None

    def __init__(self, given: LoopInput) -> None:
        self.given = given
        self.run_id = given.run
        self.site = given.site
        self.published = {}

    @abstractmethod
    async def loop(self) -> RunResult:
        """Everything from the opening to the result."""

    def next_input(self) -> LoopInput:
        """The same run, further on: the input of its next execution."""
        further = {"spec": self.spec, "state": self.core, "started_at": self.core.started_at}
        return self.given.model_copy(update=further)

    def iteration_state(self) -> dict[str, JsonValue] | None:
        """What the newest finished iteration can be taken up from; None: its transcript."""
        return None

    def last_state(self) -> dict[str, JsonValue] | None:
        """What an ended run can be taken up from; None for kinds that cannot."""
        return None

    async def run_to_end(self) -> RunResult:
        """Run to the end; a cancellation from outside is a stop, never a lost result."""
        self.watch_for_resets()
        task = asyncio.create_task(self.loop())
        deadline = asyncio.create_task(self._deadline())
        telling = [asyncio.create_task(one) for one in (self._keep_shown(), self.tell_above())]
        while not task.done():
            try:
                await workflow.wait([task])
            except asyncio.CancelledError:
                self.core.control.stop = "now"
                self.core.control.stopped_by = "cancellation"
        deadline.cancel()
        for one in telling:
            one.cancel()
        try:
            return task.result()
        except Superseded as superseded:
            return superseded.result

    async def _keep_shown(self) -> None:
        """Show what people said, and what of it was refused: once a task, however much it was."""
        while True:
            await workflow.wait_condition(lambda: self.told)
            self.told = False
            self.show_panel()

    async def checkpoint(self) -> Ending | None:
        """Pass between two steps: roll, pause, stop, clocks; returns why the run must end."""
        await self.wait_or_continue_as_new()
        return self._ending()

    async def wait_or_continue_as_new(self) -> None:
        """Wait while paused, and continue as new when it is due, also in the middle of the wait."""
        while True:
            await self.take_over()
            await self.continue_as_new_if_due()
            if not self.core.control.paused or self._ending() is not None:
                return
            self.sync_visibility()
            await workflow.wait_condition(
                lambda: (
                    not self.core.control.paused
                    or self.core.control.stop is not None
                    or self.interruption is not None
                    or self.continue_as_new_due()
                )
            )
            self.sync_visibility()

    def _told_to_end(self) -> Ending | None:
        if self.core.control.stop is not None:
            cancelled = self.core.control.stopped_by == "cancellation"
            reason = "parent_closed" if cancelled and self.site.parent else "stopped"
            return Ending(outcome="stopped", reason=reason)
        if self.deadline_passed:
            return Ending(outcome="deadline", reason="wall_time")
        return None

    def settled(self, ending: Ending) -> Ending:
        """The end as it stands for good: an accepted stop or the deadline, whatever came later.

        What arrived after it is kept and counted. From here on no verb is taken any more, so that
        none is accepted without effect.
        """
        told = self._told_to_end()
        rules.end(self.core.control)
        if told is None:
            return ending
        why = ending.detail if ending.outcome in {"failed", "blocked"} else ""
        return told.model_copy(update={"detail": why})

    def _ending(self) -> Ending | None:
        told = self._told_to_end()
        if told is not None:
            return told
        if self._time_spent("wall_time"):
            return Ending(outcome="deadline", reason="wall_time")
        if self._time_spent("active_time"):
            return Ending(outcome="deadline", reason="active_time")
        return None

    def _time_spent(self, dimension: budgets.Dimension) -> bool:
        left = self.core.budget.remaining(dimension, wall_time=self.wall_time)
        return left is not None and left <= 0

    @property
    def active_time_left(self) -> float | None:
        """Remaining active time in seconds, or None when unlimited; it travels with each step."""
        left = self.core.budget.remaining("active_time")
        return None if left is None else float(left)

    def continue_as_new_due(self) -> bool:
        """Whether this execution's history has grown enough to continue as new."""
        info, timing = workflow.info(), self.site.timing
        if self.in_one_piece:
            return False
        if not (self.steps_started or self.handled):
            return False  # an execution that did nothing yet would roll for ever
        return (
            info.is_continue_as_new_suggested()
            or info.get_current_history_length() >= timing.roll_events
            or info.get_current_history_size() >= timing.roll_bytes
            or self.handled >= timing.roll_messages
        )

    async def without_continue_as_new(self, stage: Awaitable[T]) -> T:
        """Carry out what must not be done twice: there is no roll before its end."""
        before, self.in_one_piece = self.in_one_piece, True
        try:
            return await stage
        finally:
            self.in_one_piece = before

    async def continue_as_new_if_due(self) -> None:
        """Continue as new when it is due; callers have no open activity or child."""
        if not self.continue_as_new_due():
            return
        await workflow.wait_condition(workflow.all_handlers_finished)
        self.core.rolls += 1
        self.core.ring = self.core.ring.carried()
        workflow.continue_as_new(self.next_input())

    async def _deadline(self) -> None:
        """Watch the wall clock; an amended limit moves the alarm."""
        while True:
            limit = self.core.budget.limits.wall_time
            left = None if not limit else limit - self.wall_time
            if left is not None and left <= 0:
                self.deadline_passed = True
                return
            try:
                await workflow.wait_condition(
                    self._limit_moved(limit),
                    timeout=left,
                    timeout_summary="wall-time deadline of the run",
                )
            except TimeoutError:
                continue

    def _limit_moved(self, limit: float | None) -> Callable[[], bool]:
        return lambda: self.core.budget.limits.wall_time != limit

    def set_phase(self, phase: Phase) -> None:
        """Change the phase that people see."""
        self.core.phase = phase
        self.show_panel()

    def apply_budget(self, budget: budgets.Budget) -> None:
        """Take a changed budget, and say so once when a dimension passes 80 %."""
        self.core.budget, passed = budgets.new_warnings(budget, wall_time=self.wall_time)
        for dimension in passed:
            self.record_event("budget_warning", dimension=dimension)

    def append_record(self, record: IterationRecord) -> None:
        """Remember a finished iteration among the newest."""
        self.core.records = [*self.core.records, record][-RECORDS_KEPT:]
        self.core.record_count = max(self.core.record_count, record.index)
        self.record_event(
            "iteration_completed",
            decision=record.decision,
            score=record.score,
            evaluation=record.evaluation,
            saved=record.saved,
            adaptation=record.adaptation,
            missing=lacking(record) or None,
            counted=counted(record) or None,
        )

    def sync_visibility(self) -> None:
        """Bring search attributes and panel up to date; only what changed costs an event."""
        label = told_label(self.spec.metadata.label, mark=self.site.label_mark)
        wanted = search_attributes(self.core, kind=self.kind, label=label, iteration=self.iteration)
        changed = {k: v for k, v in wanted.items() if self.published.get(k) != v}
        if changed:
            upsert(changed)
            self.published.update(changed)
        self.show_panel()

    def show_panel(self) -> None:
        """Refresh the panel of the Web UI; this costs no history."""
        told = panel(
            self.core,
            run=self.run_id,
            spec=self.spec,
            iteration=self.iteration,
            limit=self.iteration_limit,
            result=self.shown,
        )
        workflow.set_current_details(redacted(told))

    async def snapshot(self, *, patch_to: str | None = None) -> SnapshotReport | None:
        """Store the working folder of a run that writes; None for all others."""
        if self.core.base_tree is None:
            return None
        summary = f"snapshot (iteration {self.iteration})"
        request = SnapshotRequest(
            run=self.run_id,
            root=self.core.root,
            patch_from=self.core.base_tree if patch_to is not None else None,
            patch_to=patch_to or None,
        )
        # What a run delivers outlasts the interruption that ends it.
        patience = DELIVERY_S if patch_to is not None else 0.0
        outcome = await self.outlasting(
            lambda activity_id: workflow.start_activity_method(
                Snapshot.snapshot,
                request,
                **activity_options.workspace_step(
                    self.site, activity_id=activity_id, summary=summary
                ),
            ),
            what=summary,
            patience=patience,
        )
        return outcome.report if isinstance(outcome, Completed) else None

    async def final_snapshot(self, tree: str | None) -> SnapshotReport | None:
        """Store the folder as it stands, and the patch from its beginning to `tree`.

        Without a tree the patch leads to the folder as it stands.
        """
        return await self.snapshot(patch_to=tree or "")

    async def finish(self, result: RunResult, records: tuple[IterationRecord, ...]) -> RunResult:
        """Store the end, show it, and return it; a failed root run fails its execution."""
        ended = with_reply_facts(result.model_copy(update={"ended_at": workflow.now()}))
        rules.end(self.core.control)
        self.core.phase, self.core.step = "ended", None
        self.core.outcome, self.core.reason = ended.outcome, ended.reason
        self.core.explanation = ended.explanation
        self.record_event("ended", outcome=ended.outcome, reason=ended.reason)
        self.sync_visibility()
        # A run above this one reads the store: its own history does not grow by what these say.
        alone = self.site.parent is None
        finished = await workflow.execute_activity_method(
            Finish.finish,
            FinishRequest(
                run=self.run_id,
                records=records,
                result=ended.model_dump_json(),
                status=self.see_status().model_dump_json(),
                outcome=ended.outcome,
                lifecycle=lifecycle(ended.outcome),
                ended_at=workflow.now().isoformat(),
                category=self.spec.category,
                remembered=self.spec.learn,
                state=self.last_state(),
                output=ended.output_ref if alone else None,
                inline=self.site.timing.inline_output if alone else 0,
            ),
            **activity_options.store_step(
                self.site, summary=f"finish: {ended.outcome}/{ended.reason}"
            ),
        )
        if finished.output is not None:
            said = {"output": finished.output, "excerpt": finished.excerpt}
            ended = with_value(ended.model_copy(update=said))
            self.shown = ended
            self.show_panel()
        await workflow.wait_condition(workflow.all_handlers_finished)
        if ended.outcome in {"failed", "blocked"} and alone:
            _fail(ended)
        return ended if alone else ended.model_copy(update={"iterations": ()})


def expired_to_end(gate: Gate) -> bool:
    """Whether nobody answered in time and the gate's policy is to end."""
    return gate.answer is not None and gate.answer.expired and gate.answer.choice == END


def _fail(result: RunResult) -> NoReturn:
    raise ApplicationError(
        f"{result.outcome}/{result.reason}: {result.explanation}",
        result,
        type="RunFailed",
        non_retryable=True,
    )
