"""The completion checks: what must hold before a manager's `complete` counts."""

from typing import Literal, assert_never

from temporalio import workflow

from perdure.activities.manager import InspectWork
from perdure.domain.budget import accounting as budgets
from perdure.domain.delegation.apply_decision import after_checks, after_rejection
from perdure.domain.delegation.completion import (
    CompletionFacts,
    Rejection,
    Wanted,
    completion_step,
    everything_wrong,
    expected_files,
    facts_still_wanted,
)
from perdure.domain.delegation.decisions import Complete
from perdure.domain.delegation.deliverables import final_score
from perdure.domain.delegation.messages import InspectReport, InspectRequest
from perdure.domain.delegation.next_step import AfterCheck, End, Rate
from perdure.domain.delegation.state import BestResult
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.delegation_parts.work_reviews import WorkReviews
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.step_runner import StepFailed

NOT_INSPECTED = "could not be looked at"
# Patch: a look at the schema that was cut short counted as a result that fits it.
CUT_SHORT_REFUSES = "a look cut short refuses"


class CompletionChecks:
    """Checks what a manager says is done, one check after another."""

    def __init__(self, run: DelegationRun, engine: Engine, reviews: WorkReviews) -> None:
        self.run = run
        self.retries = engine.retries
        self.reviews = reviews

    async def check(self, complete: Complete) -> AfterCheck | Rate:
        """Run check after check; the first that refuses decides what follows."""
        settings, state = self.run.spec.delegation, self.run.state
        self.run.set_phase("evaluating")
        self._claim(complete)
        # Facts are gathered one by one, cheapest first: a completion without its files never pays
        # for a reviewer.
        reviews = state.course.reviews
        facts = CompletionFacts(
            critique=reviews.mean, poor=reviews.below(settings.critique.min_mean)
        )
        while True:
            step = completion_step(complete, facts, settings)
            if step is None:
                return self._passed(complete, facts)
            gathered = step if isinstance(step, Rejection) else await self._gather(complete, step)
            if isinstance(gathered, Rejection):
                facts = await self._all_facts(complete, facts, gathered)
                return self._rejected(complete, facts, gathered)
            facts = facts.model_copy(update=gathered)

    async def _all_facts(
        self, complete: Complete, facts: CompletionFacts, rejection: Rejection
    ) -> CompletionFacts:
        """Gather what a repair must know: if the breaker trips, the facts of later checks too."""
        cap = self.run.spec.delegation.completion_rejections
        _, tripped = self.run.state.course.breaker.after(rejection, cap=cap)
        for wanted in (
            facts_still_wanted(complete, facts, self.run.spec.delegation) if tripped else ()
        ):
            gathered = await self._gather(complete, wanted)
            if not isinstance(gathered, Rejection):
                facts = facts.model_copy(update=gathered)
        return facts

    def _claim(self, complete: Complete) -> None:
        """Remember what the manager wants to hand over, in case nothing better follows."""
        state = self.run.state
        state.artifacts = list(expected_files(complete, self.run.spec.delegation))
        state.claimed = BestResult(
            iteration=state.course.iteration,
            output=state.turnover.final or (state.kept.output if state.kept else None),
            tree=state.tree,
            confidence=complete.confidence,
        )

    def _passed(self, complete: Complete, facts: CompletionFacts) -> AfterCheck | Rate:
        state = self.run.state
        if self.run.spec.rubric is not None:
            # It passed all checks, whatever the evaluation will say.
            state.claimed = state.claimed and state.claimed.model_copy(
                update={"score": None, "complete": True}
            )
            return Rate()
        score = final_score(None, state.course.reviews.mean)
        state.course, following = after_checks(
            state.course,
            score,
            settings=self.run.spec.delegation,
            wrong=everything_wrong(complete, facts),
            phase=self.run.budget_phase,
        )
        if state.claimed is not None:
            accepted = isinstance(following, End) and following.verdict.outcome == "accepted"
            state.claimed = state.claimed.model_copy(update={"score": score, "complete": accepted})
        return following

    def _rejected(
        self, complete: Complete, facts: CompletionFacts, rejection: Rejection
    ) -> AfterCheck:
        self.run.record_event("verdict", gate=rejection.check, missing=list(rejection.named))
        self.run.state.course, following = after_rejection(
            self.run.state.course,
            rejection,
            wrong=everything_wrong(complete, facts),
            settings=self.run.spec.delegation,
            phase=self.run.budget_phase,
        )
        return following

    async def _gather(self, complete: Complete, wanted: Wanted) -> dict[str, object] | Rejection:
        """Gather the fact that a check needs. A fact that cannot be gathered counts as refused."""
        files = expected_files(complete, self.run.spec.delegation)
        report = await self.inspect(wanted, deliverables=files)
        match wanted:
            case "contract":
                return {"contract": _misfits(report)}
            case "files":
                if report is None or report.files is None:
                    return Rejection(check="deliverables", named=(NOT_INSPECTED,))
                return {"files": report.files}
            case "smoke":
                said = None if report is None else report.smoke
                return {"smoke": NOT_INSPECTED if said is None else said}
            case "criteria":
                return {"unmet": await self._unmet(report)}
            case _:
                assert_never(wanted)

    async def inspect(
        self, wanted: Wanted | Literal["text"], *, deliverables: tuple[str, ...]
    ) -> InspectReport | None:
        """Inspect what is handed over; None if that was not possible."""
        settings, final = self.run.spec.delegation, self.run.state.turnover.final
        request = InspectRequest(
            wanted=wanted,
            run=self.run.id,
            root=self.run.state.root,
            deliverables=deliverables,
            final=final.hash if final else None,
            goal=self.run.spec.goal,
            criteria=settings.success_criteria,
            output_schema=settings.output_schema,
            smoke_test=settings.smoke_test,
            active_time_s=self.run.active_time_left,
            room=self.reviews.room if wanted == "criteria" else None,
        )
        inspected = await self.retries.workspace_step(
            InspectWork.inspect_work,
            # Made anew at each try, for the working folder may have moved to another host.
            lambda: request.model_copy(update={"root": self.run.state.root}),
            summary=f"inspect: {wanted}",
        )
        if isinstance(inspected, StepFailed):
            return None
        self.run.apply_budget(
            budgets.add_active_time(self.run.state.budget, inspected.report.seconds)
        )
        return inspected.report

    async def _unmet(self, report: InspectReport | None) -> tuple[str, ...]:
        """The success criteria that are not met. If the reviewer fails, nothing passes."""
        criteria = self.run.spec.delegation.success_criteria
        question = None if report is None else report.question
        if question is None:
            # What could not be checked counts as unmet. Anything else would let an outage accept
            # the work.
            return (f"the success criteria {NOT_INSPECTED}",)
        review = await self.reviews.ask(question, what="success criteria", criteria=criteria)
        if review is None or review.unmet is None:
            return ("the success criteria could not be reviewed",)
        return review.unmet


def _misfits(report: InspectReport | None) -> tuple[str, ...]:
    """The ways in which the final result misses its schema; empty if it was seen to fit."""
    if report is None:
        return (NOT_INSPECTED,)
    if report.contract is None:
        return (NOT_INSPECTED,) if workflow.patched(CUT_SHORT_REFUSES) else ()
    return report.contract
