"""The gates of a claimed completion; each fact is gathered when its gate is reached."""

from typing import Literal, assert_never

from temporalio import workflow

from perdure.activities.manager import InspectWork
from perdure.domain.budget import envelope as budgets
from perdure.domain.delegation.apply_decision import after_gates, after_rejection
from perdure.domain.delegation.budget_phases import BudgetPhase, budget_phase
from perdure.domain.delegation.completion import (
    CompletionFacts,
    Rejection,
    Wanted,
    completion_step,
    everything_wrong,
    expected_files,
    unseen,
)
from perdure.domain.delegation.decisions import Complete
from perdure.domain.delegation.deliverable_quality import final_score
from perdure.domain.delegation.messages import InspectReport, InspectRequest
from perdure.domain.delegation.next_step import AfterCheck, End, Rate
from perdure.domain.delegation.state import BestResult
from perdure.workflows.delegation_parts.worker_runs import WorkerRuns
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.step_runner import StepFailed

NOT_INSPECTED = "could not be looked at"


class CompletionChecks(WorkerRuns):
    """Adds the end of the work to a manager's loop."""

    @property
    def budget_phase(self) -> BudgetPhase:
        """What the rest of the budget is for."""
        left = self.core.budget.fraction_remaining(wall_time=self.wall_time)
        return budget_phase(left)

    async def check(self, complete: Complete) -> AfterCheck | Rate:
        """Pass gate after gate; the first that refuses says what follows."""
        settings, core = self.spec.delegation, self.core
        self.set_phase("evaluating")
        self._claim(complete)
        facts = CompletionFacts(critique=core.course.reviews.mean)
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
        """What a repair must know: where the breaker trips, also what later gates would look at."""
        cap = self.spec.delegation.completion_rejections
        _, tripped = self.core.course.breaker.after(rejection, cap=cap)
        for wanted in unseen(complete, facts, self.spec.delegation) if tripped else ():
            gathered = await self._gather(complete, wanted)
            if not isinstance(gathered, Rejection):
                facts = facts.model_copy(update=gathered)
        return facts

    def _claim(self, complete: Complete) -> None:
        """What the manager wants to hand over, should nothing better come."""
        core = self.core
        core.artifacts = list(expected_files(complete, self.spec.delegation))
        core.claimed = BestResult(
            iteration=core.course.iteration,
            output=core.turnover.final or (core.kept.output if core.kept else None),
            tree=core.tree,
            confidence=complete.confidence,
        )

    def _passed(self, complete: Complete, facts: CompletionFacts) -> AfterCheck | Rate:
        core = self.core
        if self.spec.rubric is not None:
            # Whatever comes of the evaluation: this passed all gates.
            core.claimed = core.claimed and core.claimed.model_copy(
                update={"score": None, "complete": True}
            )
            return Rate()
        score = final_score(None, core.course.reviews.mean)
        core.course, following = after_gates(
            core.course,
            score,
            settings=self.spec.delegation,
            wrong=everything_wrong(complete, facts),
            phase=self.budget_phase,
        )
        if core.claimed is not None:
            accepted = isinstance(following, End) and following.verdict.outcome == "accepted"
            core.claimed = core.claimed.model_copy(update={"score": score, "complete": accepted})
        return following

    def _rejected(
        self, complete: Complete, facts: CompletionFacts, rejection: Rejection
    ) -> AfterCheck:
        self.record_event("verdict", gate=rejection.gate, missing=list(rejection.named))
        self.core.course, following = after_rejection(
            self.core.course,
            rejection,
            wrong=everything_wrong(complete, facts),
            settings=self.spec.delegation,
            phase=self.budget_phase,
        )
        return following

    async def _gather(self, complete: Complete, wanted: Wanted) -> dict[str, object] | Rejection:
        """The fact that a gate wants; what cannot be had refuses like the gate itself."""
        files = expected_files(complete, self.spec.delegation)
        report = await self.inspect(wanted, deliverables=files)
        match wanted:
            case "contract":
                return {"contract": (NOT_INSPECTED,) if report is None else report.contract or ()}
            case "files":
                if report is None or report.files is None:
                    return Rejection(gate="deliverables", named=(NOT_INSPECTED,))
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
        """Look at what is handed over; None when that was not possible."""
        settings, final = self.spec.delegation, self.core.turnover.final
        request = InspectRequest(
            wanted=wanted,
            run=self.run_id,
            root=self.core.root,
            deliverables=deliverables,
            final=final.hash if final else None,
            goal=self.spec.goal,
            criteria=settings.success_criteria,
            output_schema=settings.output_schema,
            smoke_test=settings.smoke_test,
            active_time_s=self.active_time_left,
        )
        summary = f"inspect: {wanted}"
        inspected = await self.outlasting(
            lambda activity_id: workflow.start_activity_method(
                InspectWork.inspect_work,
                request,
                **activity_options.workspace_step(
                    self.site, activity_id=activity_id, summary=summary
                ),
            ),
            what=summary,
        )
        if isinstance(inspected, StepFailed):
            return None
        self.apply_budget(budgets.work(self.core.budget, inspected.report.seconds))
        return inspected.report

    async def _unmet(self, report: InspectReport | None) -> tuple[str, ...]:
        """The success criteria that are not met; a reviewer who fails lets nothing pass."""
        criteria = self.spec.delegation.success_criteria
        question = None if report is None else report.question
        if question is None:
            return (f"the success criteria {NOT_INSPECTED}",)
        review = await self.ask_review(question, what="success criteria", criteria=criteria)
        if review is None or review.unmet is None:
            return ("the success criteria could not be reviewed",)
        return review.unmet
