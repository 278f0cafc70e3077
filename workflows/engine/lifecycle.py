"""The life of a run: checkpoints, pauses, clocks, and its end.

Between any two steps a loop calls `checkpoint`, which waits while the run is paused, checks the
clocks, and continues as new when the history has grown.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from perdure.activities.run_lifecycle import Finish
from perdure.domain.evaluation.outcomes import lifecycle
from perdure.domain.run import control as rules
from perdure.domain.run.bookkeeping_messages import FinishRequest
from perdure.domain.run.result import RunResult, with_reply_facts, with_value
from perdure.domain.run.status_views import ended_attributes
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.child_questions import ChildQuestions
from perdure.workflows.engine.continue_as_new import ContinueAsNew
from perdure.workflows.engine.hooks import HookSteps
from perdure.workflows.engine.resets import Resets, Superseded
from perdure.workflows.engine.run import AnyRun, upsert
from perdure.workflows.engine.stored_terms import StoredTerms

# A patch: a child that was reset after its end closed without the search attributes of an end, and
# lists called it failed.
LISTS_ITS_END = "lists its end after a reset"


@dataclass(frozen=True)
class Lifecycle:
    """Carries a run from its first step to its stored result."""

    run: AnyRun
    _: KW_ONLY
    resets: Resets
    rolling: ContinueAsNew
    terms: StoredTerms
    questions: ChildQuestions
    hooks: HookSteps

    async def run_to_end(self, loop: Callable[[], Awaitable[RunResult]]) -> RunResult:
        """Run to the end; a cancellation from outside is a stop, never a lost result.

        Args:
            loop: everything from the opening to the result.
        """
        self.resets.watch()
        # A task of its own: a cancellation from outside hits this coroutine, and the loop below
        # goes on to its result.
        task = asyncio.ensure_future(loop())
        deadline = asyncio.create_task(self._deadline())
        # A further one goes to the end: a replay needs what they do in one task in the same order.
        telling = [
            asyncio.create_task(one)
            for one in (self._keep_shown(), self.questions.tell_above(), self.terms.keep_up())
        ]
        while not task.done():
            try:
                await workflow.wait([task])
            except asyncio.CancelledError:
                # Cancelling is how people end workflows in the Web UI. It must leave a result like
                # any other stop.
                self.run.state.control.stop = "now"
                self.run.state.control.stopped_by = "cancellation"
        deadline.cancel()
        for one in telling:
            one.cancel()
        try:
            return task.result()
        except Superseded as superseded:
            if workflow.patched(LISTS_ITS_END):
                upsert(ended_attributes(superseded.result))
            return superseded.result

    async def _keep_shown(self) -> None:
        """Redraw the panel after what changed: once per workflow task, however much did."""
        while True:
            await workflow.wait_condition(lambda: self.run.panel_is_stale)
            # Cleared before the panel is drawn, so that what is said meanwhile draws it once more.
            self.run.panel_is_stale = False
            self.run.show_panel()

    async def checkpoint(self) -> Ending | None:
        """Pass between two steps: continue as new, pause, stop, clocks; return why the run ends."""
        await self.wait_or_continue_as_new()
        return self.run.ending()

    async def wait_or_continue_as_new(self) -> None:
        """Wait while paused, and continue as new when it is due, also in the middle of the wait.

        A pause takes effect after the stage in progress; continue-as-new may fall inside it.
        """
        run = self.run
        while True:
            # Before anything is spent: what the older execution left open may still be spending.
            await self.resets.take_over()
            await self.hooks.after_iterations()
            await self.rolling.continue_if_due()
            # A pause never holds up an end: a paused run can be stopped, and its deadline goes on.
            if run.mid_stage or not run.state.control.paused or run.ending() is not None:
                return
            run.sync_visibility()
            await workflow.wait_condition(
                lambda: (
                    not run.state.control.paused
                    or run.state.control.stop is not None
                    or run.interruption is not None
                    or self.rolling.due()
                )
            )
            run.sync_visibility()

    def settle_ending(self, ending: Ending) -> Ending:
        """The final ending: an accepted stop or the deadline outranks later events.

        From here on every control verb is refused, so that none is accepted without effect.
        """
        # Read before verbs are closed: a stop that was accepted must be what the run ends by.
        told = self.run.demanded_ending()
        rules.close_control(self.run.state.control)
        if told is None:
            return ending
        why = ending.detail if ending.outcome in {"failed", "blocked"} else ""
        return told.model_copy(update={"detail": why})

    async def _deadline(self) -> None:
        """Watch the wall clock; an amended limit moves the alarm."""
        while True:
            # The SDK's own timers cannot be moved. The wait ends when `amend` changes the limit,
            # and a new timer is set.
            limit = self.run.state.budget.limits.wall_time
            left = None if not limit else limit - self.run.wall_time
            if left is not None and left <= 0:
                self.run.deadline_passed = True
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
        return lambda: self.run.state.budget.limits.wall_time != limit

    async def finish(self, result: RunResult, records: tuple[IterationRecord, ...]) -> RunResult:
        """Store the result, show it, and return it; a failed root run fails its execution."""
        run, state = self.run, self.run.state
        result = result.model_copy(update={"unsaved_files": run.unsaved_files})
        # While the run is still open, so that the stored result says which of them failed.
        result = await self.hooks.at_end(result)
        # The end replaces the whole row, so nothing may be written beside it.
        await self.terms.wait()
        ended = with_reply_facts(result.model_copy(update={"ended_at": workflow.now()}))
        rules.close_control(state.control)
        state.phase, state.step = "ended", None
        state.outcome, state.reason = ended.outcome, ended.reason
        state.explanation = ended.explanation
        run.record_event("ended", outcome=ended.outcome, reason=ended.reason)
        run.sync_visibility()
        # A parent reads the store instead, so that outputs of children do not fill its history.
        alone = run.site.parent is None
        finished = await workflow.execute_activity_method(
            Finish.finish,
            FinishRequest(
                run=run.id,
                records=records,
                result=ended.model_dump_json(),
                status=run.status().model_dump_json(),
                outcome=ended.outcome,
                lifecycle=lifecycle(ended.outcome),
                ended_at=workflow.now().isoformat(),
                category=run.spec.category,
                remembered=run.spec.learn is not False,
                state=run.last_state(),
                output=ended.output_ref if alone else None,
                inline=run.site.timing.inline_output if alone else 0,
            ),
            **activity_options.store_step(
                run.site, summary=f"finish: {ended.outcome}/{ended.reason}"
            ),
        )
        if finished.output is not None:
            said = {"output": finished.output, "excerpt": finished.excerpt}
            ended = with_value(ended.model_copy(update=said))
            run.shown = ended
            run.show_panel()
        # Returning with a handler in progress would fail its update for the sender.
        await workflow.wait_condition(workflow.all_handlers_finished)
        # Failing the execution makes failed runs visible to Temporal's own lists and alerts. A
        # child returns its result instead: its parent has to read it.
        if ended.outcome in {"failed", "blocked"} and alone:
            raise failure_of(ended)
        # Nor does a parent need the records, which the store has too.
        return ended if alone else ended.model_copy(update={"iterations": ()})


def failure_of(result: RunResult) -> ApplicationError:
    """How the execution of a run fails: in its words, with its whole result."""
    return ApplicationError(
        f"{result.outcome}/{result.reason}: {result.explanation}",
        result,
        type="RunFailed",
        non_retryable=True,
    )
