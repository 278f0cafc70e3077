"""The specification of a delegation run and its `delegation:` block."""

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, field_validator, model_validator

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.evaluation.judge_cache import JudgeSettings
from perdure.domain.evaluation.program_checks import Argv
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import repeated
from perdure.domain.foundation.spec_size_limits import MAX_ITERATIONS, Count
from perdure.domain.generated_tools.messages import ToolsFactorySettings
from perdure.domain.run.spec import CommonSpec

# All children of a wave end within one iteration: continue-as-new would end those still open.
WAVE = 16

StrategyName = Literal["decompose_finer", "simplify", "reframe", "escalate"]
STRATEGIES: tuple[StrategyName, ...] = ("decompose_finer", "simplify", "reframe", "escalate")
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class SubManagerSettings(FrozenModel):
    """How many workers may manage workers of their own; counted over the whole tree of runs."""

    at_once: Count = 3
    per_run: Count = 6
    fraction: Annotated[float, Field(gt=0, le=1)] = 0.3


class StallSettings(FrozenModel):
    """When the work counts as stuck.

    Args:
        window: delegations that are looked at together.
        min_confidence_delta: less change of confidence than this over the window is none.
        similarity: outputs more alike than this are the same.
        fresh_window: readings from before a change of strategy no longer count.
    """

    # Not 1, since the oldest reading of a window is compared with its newest.
    window: Annotated[int, Field(ge=2, le=20)] = 3
    min_confidence_delta: Share = 0.05
    similarity: Share = 0.85
    fresh_window: bool = True


class CritiqueSettings(FrozenModel):
    """Whether a reviewer scores the workers' results, and how often a worker repairs its own."""

    enabled: bool = True
    repairs: Annotated[int, Field(ge=0, le=10)] = 2
    min_mean: Share = 0.6


class QualityThresholds(FrozenModel):
    """What becomes of the final deliverable by its score, from the best to the worst."""

    accept: Share = 0.8
    warn: Share = 0.6
    repair: Share = 0.4

    @model_validator(mode="after")
    def _descending(self) -> Self:
        if not self.accept >= self.warn >= self.repair:
            raise ValueError("thresholds that fall: accept, then warn, then repair")
        return self


class DelegationSettings(FrozenModel):
    """How a manager works through its workers.

    Args:
        max_iterations: decisions of the manager.
        success_criteria: what a completed task must show, one sentence each.
        full_results_window: the newest iterations that the manager sees in detail.
        workers_per_iteration: the rest is deferred; 0 means no cap.
        parallel: workers at work at the same time.
        min_confidence: a result below it leaves its subtask failed, to be tried again: by the
            reviewer's score, or else by what the worker says itself.
        completion_rejections: the same refusal so often in a row trips the breaker; 0 means never.
        evaluator_share: how much of the token budget the judges of the rubric may use.
        judge: how the judges of the rubric are asked.
        strategies: what is tried in turn when the work is stuck; empty switches that off.
        output_schema: the JSON schema that the final result must fit.
        deliverables: files that must exist at the end, whatever the manager lists.
        smoke_test: a program that must end with 0 over the deliverables.
    """

    max_iterations: Annotated[int, Field(ge=1, le=MAX_ITERATIONS)] = 100
    success_criteria: tuple[str, ...] = ()
    # Not 0, since `rounds[-0:]` is all of them.
    full_results_window: Annotated[int, Field(ge=1, le=20)] = 3
    workers_per_iteration: Count = 6
    parallel: Annotated[int, Field(ge=1, le=WAVE)] = WAVE
    min_confidence: Share = 0.3
    completion_rejections: Count = 2
    submanagers: SubManagerSettings = SubManagerSettings()
    stall: StallSettings = StallSettings()
    strategies: tuple[StrategyName, ...] = STRATEGIES
    critique: CritiqueSettings = CritiqueSettings()
    evaluation: QualityThresholds = QualityThresholds()
    evaluator_share: Share = 0.3
    judge: JudgeSettings = JudgeSettings()
    tools_factory: ToolsFactorySettings = ToolsFactorySettings()
    output_schema: dict[str, JsonValue] | None = None
    deliverables: tuple[str, ...] = ()
    smoke_test: Argv | None = None

    @field_validator("strategies")
    @classmethod
    def _named_once(cls, value: tuple[StrategyName, ...]) -> tuple[StrategyName, ...]:
        twice = repeated(value)
        if twice:
            raise ValueError(f"each strategy once (more than once: {', '.join(twice)})")
        return value

    @field_validator("success_criteria", "deliverables")
    @classmethod
    def _not_blank(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(not item.strip() for item in value):
            raise ValueError("texts that say something: one of them is blank")
        return value


_TREE_LIMITS: dict[str, object] = {
    "tokens": 10_000_000,
    "cost_usd": Decimal("20.00"),
    "tool_calls": 1_500,
    "workers": 500,
    "active_time": 3_600.0,
}


def _of_a_tree(value: object) -> object:
    """A manager and its workers cost more than one conversation: other limits where none are."""
    # What is given counts, also null, which means no limit.
    return {**_TREE_LIMITS, **value} if isinstance(value, dict) else value


class DelegationSpec(CommonSpec):
    """A manager that gives work to workers until the task is complete.

    `rubric` scores the final deliverable; without one the reviewers' mean does.
    """

    kind: Literal["delegation"]
    # A validator does not see the default, so that has the limits of a tree itself.
    budget: Annotated[BudgetLimits, BeforeValidator(_of_a_tree)] = BudgetLimits.model_validate(
        _TREE_LIMITS
    )
    rubric: Rubric | None = None
    delegation: DelegationSettings = DelegationSettings()
