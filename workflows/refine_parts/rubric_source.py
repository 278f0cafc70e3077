"""The rubric of a refine loop: which one is in force, what it needs, and how a draft passes it."""

from perdure.domain.evaluation.judge_cache import JudgeSettings
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.rubric_requirements import WorkerRequirements, needs_of
from perdure.domain.evaluation.scores import DimensionScore
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.refine.state import Draft, RefineState
from perdure.domain.run.activity_messages import OpenWorkspaceReport
from perdure.workflows.engine.agent_turns import AgentTurns
from perdure.workflows.engine.scorer import Scorer
from perdure.workflows.engine.step_runner import StepFailed


class RubricSource(AgentTurns, Scorer):
    """Adds a rubric to a loop of turns."""

    # Narrowed once, by `__init__`: nothing assigns a wider value afterwards.
    spec: RefineSpec  # pyright: ignore[reportIncompatibleVariableOverride]
    core: RefineState  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def rubric(self) -> Rubric:
        """The rubric in force: frozen at the start, replaced only by a person's `amend`."""
        return self.core.rubric or self.spec.rubric

    @property
    def evaluator_share(self) -> float:
        """How much of the token budget the judges may use."""
        return self.spec.refine.evaluator_share

    @property
    def judge_settings(self) -> JudgeSettings:
        """How the task wants its judges to be asked."""
        return self.spec.refine.judge

    @property
    def pass_score(self) -> float | None:
        """The score from which on an output is good enough."""
        return self.spec.refine.quality_threshold

    def needs(self) -> WorkerRequirements:
        """The programs and plugins that the rubric asks for."""
        return needs_of(self.rubric)

    def judges(self) -> tuple[str, ...]:
        """The models that the rubric names as judges."""
        return tuple(name for name in self.rubric.judges if name is not None)

    def admitted(self, report: OpenWorkspaceReport) -> None:
        """Remember the checks of the worker, for a rubric that a person amends."""
        self.core.plugin_checks = report.checks

    async def verify(self, draft: Draft) -> tuple[DimensionScore, ...] | StepFailed:
        """The scores of commands, tests and linters on the draft's own snapshot."""
        return await self.verify_tree(self.rubric, draft.tree, draft.output)
