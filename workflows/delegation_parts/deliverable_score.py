"""The rubric of a delegation run: it scores what a manager hands over, after all gates passed."""

from pydantic import JsonValue

from perdure.domain.delegation.apply_decision import after_rating, unrated
from perdure.domain.delegation.next_step import AfterCheck, End
from perdure.domain.delegation.result import keep_rated
from perdure.domain.evaluation.judge_cache import JudgeSettings
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.rubric_requirements import WorkerRequirements, needs_of
from perdure.domain.evaluation.scores import Evaluation
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.refine.state import CheckRequest, RefineFrame
from perdure.domain.scoring.combine import combined, completed, unscored
from perdure.domain.scoring.judging import Question, evaluator_tokens
from perdure.domain.turns.turn import Ending
from perdure.workflows.delegation_parts.completion_checks import NOT_INSPECTED, CompletionChecks
from perdure.workflows.engine.scorer import Scorer
from perdure.workflows.engine.step_runner import StepFailed

FAILED = "evaluator_failed"
SMOKE_TEST = "delegation.smoke_test"


# `Completing` narrows what both bases declare.
class DeliverableScore(CompletionChecks, Scorer):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Adds the rubric; a stage of its own, so that a person's score may outlast an execution."""

    @property
    def evaluator_share(self) -> float:
        """How much of the token budget the judges may use."""
        return self.spec.delegation.evaluator_share

    @property
    def pass_score(self) -> float | None:
        """The score from which on a deliverable is good enough."""
        return self.spec.delegation.evaluation.accept

    @property
    def judge_settings(self) -> JudgeSettings:
        """How the task wants its judges to be asked."""
        return self.spec.delegation.judge

    @property
    def share_setting(self) -> str:
        """The setting that a person raises when the share is used up."""
        return "delegation.evaluator_share"

    def frame_extra(self) -> dict[str, JsonValue]:
        """The rubric, frozen by lying where those who evaluate look for it."""
        if self.spec.rubric is None:
            return {}
        return RefineFrame(rubric=self.spec.rubric).model_dump(mode="json", by_alias=True)

    def needs(self) -> WorkerRequirements:
        """The programs and plugins that the rubric asks for, and the smoke test."""
        wanted = super().needs() if self.spec.rubric is None else needs_of(self.spec.rubric)
        smoke = self.spec.delegation.smoke_test
        return wanted if smoke is None else wanted.and_program(SMOKE_TEST, smoke)

    def judges(self) -> tuple[str, ...]:
        """The models that the rubric names as judges."""
        named = self.spec.rubric.judges if self.spec.rubric else {}
        return tuple(name for name in named if name is not None)

    async def rate(self, rubric: Rubric) -> AfterCheck | Ending:
        """Score what is handed over; an ending when a limit or a person came first."""
        core, turnover = self.core, self.core.turnover
        self.set_phase("evaluating")
        said = turnover.evaluation or await self.without_continue_as_new(self._evaluated(rubric))
        if isinstance(said, Evaluation):
            turnover.evaluation = said
            said = await self._reviewed(rubric, said)
        if isinstance(said, Ending):
            turnover.evaluation = None
            return self._unrated(said)
        turnover.evaluation = said
        self.record_event("evaluated", kind=said.mode, scores=said.scores())
        core.course, following = after_rating(
            core.course,
            rubric,
            said,
            settings=self.spec.delegation,
            phase=self.budget_phase,
        )
        accepted = isinstance(following, End) and following.verdict.outcome == "accepted"
        keep_rated(core, rubric, accepted=accepted)
        return following

    def _unrated(self, ending: Ending) -> AfterCheck | Ending:
        """Without a score: a failed evaluator is told to the manager once, or ends the run."""
        if ending.outcome != "failed":
            return ending
        core = self.core
        core.turnover.unrated = ending.detail or ending.reason
        self.record_event("evaluated", kind="failed", scores={}, error=core.turnover.unrated)
        core.course, following = unrated(core.course, core.turnover.unrated)
        return following

    async def _evaluated(self, rubric: Rubric) -> Evaluation | Ending:
        """What code, programs and models say of it."""
        text = await self._handed_over()
        if isinstance(text, Ending):
            return text
        self.core.turnover.rated = text
        checked = await self.check_output(
            CheckRequest(frame=self.core.frame or "", pieces=(text.hash,), stored=True)
        )
        if isinstance(checked, StepFailed):
            return self._unchecked(checked)
        verified = await self.verify_tree(rubric, self.core.tree, text)
        if isinstance(verified, StepFailed):
            return self._unchecked(verified)
        self.unshared = evaluator_tokens(self.core) - self.core.judged_tokens
        names = tuple(item.name for item in rubric.judged)
        verdict = await self.ask_judges(rubric, Question(output=text, asked=names))
        self.core.judged_tokens = evaluator_tokens(self.core) - self.unshared
        if verdict.ending is not None:
            return verdict.ending
        evaluation = combined(
            rubric, checks=(*checked.dimensions, *verified), judged=verdict.scores, before=None
        )
        if verdict.cached:
            evaluation = evaluation.model_copy(update={"mode": "cached"})
        missing = unscored(evaluation, rubric)
        return evaluation if missing is None else _failed(missing)

    async def _reviewed(self, rubric: Rubric, evaluation: Evaluation) -> Evaluation | Ending:
        """With a person's scores, where the rubric asks for them."""
        if not rubric.human:
            return evaluation
        given = await self.score_by_person(
            rubric, output=self.core.turnover.rated, tree=self.core.tree
        )
        return given if isinstance(given, Ending) else completed(rubric, evaluation, given)

    async def _handed_over(self) -> BlobRef | Ending:
        """The text that the rubric looks at: the final result, and the files behind it."""
        final = self.core.turnover.final
        if final is not None and not self.core.artifacts:
            return final
        report = await self.inspect("text", deliverables=tuple(self.core.artifacts))
        if report is None or report.text is None:
            cut = self._ending() if self.interruption is not None else None
            return cut or _failed(f"what is handed over {NOT_INSPECTED}")
        return report.text

    def _unchecked(self, broken: StepFailed) -> Ending:
        cut = self._ending() if self.interruption is not None else None
        return cut or _failed(f"the checks could not run: {broken.code}: {broken.message}")


def _failed(why: str) -> Ending:
    return Ending(outcome="failed", reason=FAILED, detail=why[:500])
