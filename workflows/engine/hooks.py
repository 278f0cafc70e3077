"""Hooks of a run: a user's functions, called after an iteration and at the end.

A hook that fails is named in status and result. Only `adapt` may end a run, if the task says so.
"""

from temporalio import workflow

from perdure.activities.hooks import RunHook
from perdure.domain.budget import accounting as budgets
from perdure.domain.run.hooks import (
    WORDS,
    Adapted,
    HookFailure,
    HookReport,
    HookRequest,
    HookUse,
    WantedHook,
    failures_with,
    wanted,
)
from perdure.domain.run.result import RunResult
from perdure.domain.turns.records import IterationRecord
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.continue_as_new import ContinueAsNew
from perdure.workflows.engine.lost_worker_retries import is_owed
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import Completed, StepFailed, StepRunner


class HookSteps:
    """Calls the hooks of a run, each as an activity."""

    def __init__(self, run: AnyRun, steps: StepRunner, rolling: ContinueAsNew) -> None:
        self.run = run
        self.steps = steps
        self.rolling = rolling

    async def after_iterations(self) -> None:
        """Call `on_iteration` for each iteration that ended since it was last called."""
        state = self.run.state
        while state.unhooked:
            # Taken out first: several parts of a loop may come here while the hook runs.
            index, *state.unhooked = state.unhooked
            record = next((one for one in state.records if one.index == index), None)
            if record is not None:
                # Taken out already: a run that continued as new in here would call no further one.
                await self.rolling.run_in_one_piece(self._after(record))

    async def _after(self, record: IterationRecord) -> None:
        for place, use in enumerate(self.run.spec.hooks.on_iteration):
            hook = wanted("on_iteration", use)
            step = self._request(hook, key=f"{record.index}/{place}", iteration=record)
            await self._call(use, step, iteration=record.index)

    async def adapt(self, record: IterationRecord, adaptation: Adapted) -> Adapted | HookFailure:
        """What changes before the next iteration; a failure if nobody could say.

        Args:
            record: of the iteration that ended.
            adaptation: what was in force in it.
        """
        use = self.run.spec.hooks.adapt
        if use is None:
            return adaptation
        step = self._request(wanted("adapt", use), key=f"{record.index}/0", iteration=record)
        step = step.model_copy(update={"adaptation": adaptation})
        ended = await self._call(use, step, iteration=record.index)
        if isinstance(ended, HookFailure):
            return ended
        self.run.apply_budget(budgets.add_active_time(self.run.state.budget, ended.seconds))
        return ended.adaptation

    async def at_end(self, result: RunResult) -> RunResult:
        """Call what is left of `on_iteration`, then `on_end`; the result names what failed."""
        await self.after_iterations()
        uses = self.run.spec.hooks.on_end
        for place, use in enumerate(uses):
            told = self._with_failures(result).model_dump_json()
            step = self._request(wanted("on_end", use), key=str(place))
            step = step.model_copy(update={"result": told})
            await self._call(use, step, iteration=0)
        return self._with_failures(result)

    def _with_failures(self, result: RunResult) -> RunResult:
        failures = self.run.state.hook_failures
        return result.model_copy(update={"hook_failures": failures}) if failures else result

    def _request(
        self, hook: WantedHook, *, key: str, iteration: IterationRecord | None = None
    ) -> HookRequest:
        # The same in every attempt of this call. A run that is reset, or retried after a failure,
        # does its iterations anew and has another end: those are other calls.
        execution = workflow.info().run_id
        return HookRequest(
            hook=hook,
            run=self.run.id,
            loop=self.run.kind,
            frame=self.run.state.frame,
            goal="" if self.run.state.frame else self.run.spec.goal,
            key=f"{execution}/{hook.kind}/{key}",
            record=iteration,
        )

    async def _call(
        self, use: HookUse, step: HookRequest, *, iteration: int
    ) -> HookReport | HookFailure:
        summary = f"{step.hook.kind}: {use.name}"
        self.run.set_step(summary)
        ended = await self._outlasting(use, step, summary)
        self.run.set_step(None)
        if isinstance(ended, Completed):
            return ended.report
        hook = step.hook
        failure = HookFailure(
            kind=hook.kind,
            name=hook.name,
            iteration=iteration,
            code=ended.code,
            message=ended.message[:WORDS],
        )
        state = self.run.state
        state.hook_failures = failures_with(state.hook_failures, failure)
        self.run.record_event(
            "hook_failed", hook=hook.name, kind=hook.kind, why=failure.message[:300]
        )
        return failure

    async def _outlasting(
        self, use: HookUse, step: HookRequest, summary: str
    ) -> Completed[HookReport] | StepFailed:
        """Call a hook, again if its worker was stopped on purpose."""
        # Not `LostWorkerRetries`, which asks a person in the end: a hook is not worth that.
        made = 0
        while True:
            made += 1
            activity_id = self.run.next_activity_id()
            handle = workflow.start_activity_method(
                RunHook.run_hook,
                step,
                **activity_options.hook(
                    self.run.site, summary=summary, timeout_s=use.timeout_s, activity_id=activity_id
                ),
            )
            # A run that was stopped still tells its hooks so, and waits for each as long as one
            # attempt may take.
            ended = await self.steps.await_step(
                handle, activity_id=activity_id, patience=use.timeout_s
            )
            if isinstance(ended, Completed) or not ended.stopped or not is_owed(self.run, made):
                return ended
