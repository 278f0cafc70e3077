"""Scores what a manager hands over by the rubric, after all completion checks passed."""

from pydantic import JsonValue

from perdure.domain.delegation.apply_decision import after_failed_rating, after_rating
from perdure.domain.delegation.next_step import AfterCheck, End
from perdure.domain.delegation.result import keep_rated
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import Evaluation
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.refine.state import CheckRequest, RefineFrame
from perdure.domain.scoring.combine import combined, why_not_scored, with_human_scores
from perdure.domain.scoring.judging import Question, evaluator_tokens
from perdure.domain.turns.turn import Ending
from perdure.workflows.delegation_parts.completion_checks import NOT_INSPECTED, CompletionChecks
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.scorer import Scorer
from perdure.workflows.engine.step_runner import StepFailed

FAILED = "evaluator_failed"


class DeliverableScore:
    """Scores deliverables by the rubric. A person's score may take longer than one execution."""

    def __init__(
        self, run: DelegationRun, engine: Engine, *, scorer: Scorer, completion: CompletionChecks
    ) -> None:
        self.run = run
        self.rolling = engine.rolling
        self.scorer = scorer
        self.completion = completion

    def frame_extra(self) -> dict[str, JsonValue]:
        """The rubric as part of the frame, where evaluators read it; so it cannot change later."""
        if self.run.spec.rubric is None:
            return {}
        return RefineFrame(rubric=self.run.spec.rubric).model_dump(mode="json", by_alias=True)

    async def rate(self, rubric: Rubric) -> AfterCheck | Ending:
        """Score the deliverable; returns an ending if a limit or a person came first."""
        state, turnover = self.run.state, self.run.state.turnover
        self.run.set_phase("evaluating")
        # The evaluation is in the state once it is made: a run that continued as new while a person
        # scored does not pay its judges again.
        said = turnover.evaluation or await self.rolling.run_in_one_piece(self._evaluated(rubric))
        if isinstance(said, Evaluation):
            turnover.evaluation = said
            said = await self._reviewed(rubric, said)
        if isinstance(said, Ending):
            turnover.evaluation = None
            return self._unrated(said)
        turnover.evaluation = said
        self.run.record_event("evaluated", kind=said.mode, scores=said.scores())
        state.course, following = after_rating(
            state.course,
            rubric,
            said,
            settings=self.run.spec.delegation,
            phase=self.run.budget_phase,
        )
        accepted = isinstance(following, End) and following.verdict.outcome == "accepted"
        keep_rated(state, rubric, accepted=accepted)
        return following

    def _unrated(self, ending: Ending) -> AfterCheck | Ending:
        """Handle a missing score: tell the manager once, then end the run."""
        if ending.outcome != "failed":
            return ending
        state = self.run.state
        state.turnover.unrated = ending.detail or ending.reason
        self.run.record_event("evaluated", kind="failed", scores={}, error=state.turnover.unrated)
        state.course, following = after_failed_rating(state.course, state.turnover.unrated)
        return following

    async def _evaluated(self, rubric: Rubric) -> Evaluation | Ending:
        """Run checks, programs and judges."""
        text = await self._handed_over()
        if isinstance(text, Ending):
            return text
        self.run.state.turnover.rated = text
        checked = await self.scorer.check_output(
            CheckRequest(frame=self.run.state.frame or "", pieces=(text.hash,), stored=True)
        )
        if isinstance(checked, StepFailed):
            return self._unchecked(checked)
        verified = await self.scorer.verify_tree(rubric, self.run.state.tree, text)
        if isinstance(verified, StepFailed):
            return self._unchecked(verified)
        # Reviewers spend under the same role; the judges' share must not be charged for them.
        self.scorer.unshared = evaluator_tokens(self.run.state) - self.run.state.judged_tokens
        names = tuple(item.name for item in rubric.judged)
        verdict = await self.scorer.ask_judges(rubric, Question(output=text, asked=names))
        self.run.state.judged_tokens = evaluator_tokens(self.run.state) - self.scorer.unshared
        if verdict.ending is not None:
            return verdict.ending
        evaluation = combined(
            rubric, checks=(*checked.dimensions, *verified), judged=verdict.scores, before=None
        )
        if verdict.cached:
            evaluation = evaluation.model_copy(update={"mode": "cached"})
        missing = why_not_scored(evaluation, rubric)
        return evaluation if missing is None else _failed(missing)

    async def _reviewed(self, rubric: Rubric, evaluation: Evaluation) -> Evaluation | Ending:
        """Add a person's scores if the rubric asks for them."""
        if not rubric.human:
            return evaluation
        given = await self.scorer.score_by_person(
            rubric, output=self.run.state.turnover.rated, tree=self.run.state.tree
        )
        return given if isinstance(given, Ending) else with_human_scores(rubric, evaluation, given)

    async def _handed_over(self) -> BlobRef | Ending:
        """The text that is scored: the final result, followed by the files."""
        final = self.run.state.turnover.final
        if final is not None and not self.run.state.artifacts:
            return final
        report = await self.completion.inspect("text", deliverables=tuple(self.run.state.artifacts))
        if report is None or report.text is None:
            cut = self.run.ending() if self.run.interruption is not None else None
            return cut or _failed(f"what is handed over {NOT_INSPECTED}")
        return report.text

    def _unchecked(self, broken: StepFailed) -> Ending:
        cut = self.run.ending() if self.run.interruption is not None else None
        return cut or _failed(f"the checks could not run: {broken.code}: {broken.message}")


def _failed(why: str) -> Ending:
    return Ending(outcome="failed", reason=FAILED, detail=why[:500])
