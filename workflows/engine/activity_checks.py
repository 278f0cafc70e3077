"""Checks that are foreign activities, scheduled by the loop on the queue of their owner.

A check has no effect that a repetition could double, so its owner decides how often it is tried.
"""

import asyncio

from temporalio import workflow

from perdure.activities.evaluation import Check
from perdure.domain.budget import accounting as budgets
from perdure.domain.evaluation.checks import ActivityCheck, ActivityVerdict
from perdure.domain.refine.state import CheckReport, ReadVerdictsRequest
from perdure.workflows.engine.activity_tools import call_foreign
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.step_runner import Completed, StepFailed


class ActivityChecks:
    """Adds the scores of these checks to the others."""

    def __init__(self, engine: Engine) -> None:
        self.run = engine.run
        self.steps = engine.steps
        self.retries = engine.retries

    async def scored(self, frame: str, checked: CheckReport) -> CheckReport | StepFailed:
        """The report with the scores of the activities; unchanged if it asks for none."""
        if not checked.activities:
            return checked
        begun = workflow.now()
        self.run.set_step(f"checks of your own (iteration {self.run.iteration})")
        said = await asyncio.gather(*(self._ask(one) for one in checked.activities))
        self.run.set_step(None)
        seconds = (workflow.now() - begun).total_seconds()
        self.run.apply_budget(budgets.add_active_time(self.run.state.budget, seconds))
        broken = next((one for one in said if isinstance(one, StepFailed)), None)
        if broken is not None:
            return broken
        named = zip(checked.activities, said, strict=True)
        verdicts = {one.dimension: told for one, told in named if isinstance(told, ActivityVerdict)}
        return await self._read(frame, checked, verdicts)

    async def _ask(self, check: ActivityCheck) -> ActivityVerdict | StepFailed:
        """What one activity says; a `StepFailed` only if the run itself must end."""
        ended = await call_foreign(
            self.run,
            self.steps,
            check.activity,
            check.arguments,
            summary=f"{check.check}: {check.dimension} (iteration {self.run.iteration})",
            timeout_s=check.timeout_s,
        )
        if isinstance(ended, Completed):
            return ActivityVerdict(value=ended.report)
        if self.run.interruption is not None:
            return ended
        # No score, never a low one: the loop would improve a text because a service was down.
        words = f"the check {check.check} failed with {ended.code}: {ended.message}"
        return ActivityVerdict(failed=words)

    async def _read(
        self, frame: str, checked: CheckReport, verdicts: dict[str, ActivityVerdict]
    ) -> CheckReport | StepFailed:
        request = ReadVerdictsRequest(frame=frame, output=checked.output.hash, verdicts=verdicts)
        outcome = await self.retries.workspace_step(
            Check.read_verdicts,
            lambda: request,
            summary=f"scores of your checks (iteration {self.run.iteration})",
            in_folder=False,
        )
        if isinstance(outcome, StepFailed):
            return outcome
        scores = {one.name: one for one in outcome.report.dimensions}
        every = tuple(scores.get(one.name, one) for one in checked.dimensions)
        return checked.model_copy(update={"dimensions": every, "activities": ()})
