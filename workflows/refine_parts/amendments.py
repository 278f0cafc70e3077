"""What people amend between two steps: a new frame, and the best draft scored by what holds now."""

from temporalio import workflow

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import Evaluation
from perdure.domain.refine.iteration_rules import rescore_best
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.reframe import reframe
from perdure.workflows.refine_parts.evaluation import EvaluationStage
from perdure.workflows.refine_parts.run import RefineRun

# Patch: an amendment was lost if the step that adopts it failed.
KEEPS_AMENDMENTS = "amendments that could not be adopted are kept"
# Patch: a run that continued as new while the best draft was scored anew kept its old score.
RESCORES_WHOLE = "the best draft is scored anew in one execution"
# Patch: scores that a person gave by the old rubric were read by one that was amended meanwhile.
REVIEWED_BY_ONE = "a review ends by the rubric that it began with"


class Amendments:
    """Adopts an amended goal or rubric, and guidance that the best draft was not scored by."""

    def __init__(self, run: RefineRun, engine: Engine, evaluation: EvaluationStage) -> None:
        self.run = run
        self.engine = engine
        self.evaluation = evaluation

    async def adopt(self) -> None:
        """Write a new frame for a goal or rubric, and score the best draft by what holds now."""
        state = self.run.state
        # Nothing is scored anew in a run that ends here.
        if self.run.ending() is not None:
            return
        has_rubric = False
        if state.control.rubric is not None or state.control.goal is not None:
            # A run that continued as new while a person scored comes here again before the answer.
            if state.draft.reviewing and workflow.patched(REVIEWED_BY_ONE):
                return
            has_rubric = await self._reframe()
        if not has_rubric and not self._is_outdated:
            return
        # Looked up before the judge is asked: what is said meanwhile has it asked once more.
        demands = self.run.demands
        rescore_best(state, await self._rescored_best(), self.run.rubric, demands=demands)
        score = state.best.score if state.best else None
        self.run.record_event("amended", rubric=self.run.rubric.digest, score=score)

    async def _reframe(self) -> bool:
        """Write a frame with the amended goal or rubric; whether there is another rubric now."""
        state = self.run.state
        # Taken out first: an amendment that arrives during the step below is another one, and must
        # not be lost by clearing it afterwards.
        goal, state.control.goal = state.control.goal, None
        given, state.control.rubric = state.control.rubric, None
        rubric = self.run.rubric if given is None else Rubric.model_validate(given)
        report = await reframe(
            self.engine,
            state.frame or "",
            goal=goal,
            extra=self.run.frame_part(rubric),
            summary="adopt the rubric",
        )
        if report is None:
            # The next stage tries again, and if none comes, the result names both as unread.
            if workflow.patched(KEEPS_AMENDMENTS):
                state.control.goal = state.control.goal or goal
                state.control.rubric = state.control.rubric or given
            return False
        state.frame, state.task_tokens = report.frame, report.task_tokens
        if given is not None:
            state.rubric = rubric
        return given is not None

    @property
    def _is_outdated(self) -> bool:
        """Whether the best draft's score is one by another goal, or by other guidance."""
        state = self.run.state
        if state.kept is None or state.kept.score is None or state.draft.reviewing:
            return False
        return self.run.demands not in {"", state.kept.demands}

    async def _rescored_best(self) -> Evaluation | None:
        kept = self.run.state.kept
        if kept is None:
            return None
        scoring = self.evaluation.rescore(kept.output)
        # The amendment is taken out: the next execution would not know that the best draft still
        # has its old score.
        if workflow.patched(RESCORES_WHOLE):
            return await self.engine.rolling.run_in_one_piece(scoring)
        return await scoring
