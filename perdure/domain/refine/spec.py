"""The specification of a refine run: its `refine:` block, strategies, defaults of each pattern."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self, assert_never

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from perdure.domain.evaluation.judge_cache import JudgeSettings
from perdure.domain.evaluation.rubric import Part, PartKind, Rubric
from perdure.domain.evaluation.termination_conditions import (
    Condition,
    EvaluationBound,
    GoalBound,
    certain_limit,
    largest_limit,
    placed_leaves,
    success_threshold,
)
from perdure.domain.evaluation.trajectory import CompareWith
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import Problem, format_value, repeated
from perdure.domain.run.spec import CommonSpec
from perdure.domain.turns.output_schema import OutputSchema


class StrategyTools(FrozenModel):
    """Which of the run's tools an approach has; names may end in `*`. It can only narrow."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def offered(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the tools that the approach may use."""
        # None allows all, and an empty list nothing.
        kept = [name for name in names if self.allow is None or _any(self.allow, name)]
        return tuple(name for name in kept if not _any(self.deny, name))


class Strategy(FrozenModel):
    """One approach; a bare text is its name, and its name is its prompt.

    Args:
        name: what the history calls it.
        prompt: what the model is told of it; none: the name.
        model: who carries it out, a name or a list with fallbacks; none: the executor.
        tools: which of the run's tools it has; none: all.
    """

    name: str = Field(min_length=1, max_length=80)
    prompt: str = ""
    model: str | tuple[str, ...] | None = None
    tools: StrategyTools | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @property
    def approach(self) -> str:
        """The instruction for the model."""
        return self.prompt or self.name

    @property
    def chain(self) -> tuple[str, ...]:
        """Its own models in order of preference; empty: the executor's."""
        return (self.model,) if isinstance(self.model, str) else (self.model or ())


def strategy_of(strategies: Sequence[Strategy], iteration: int) -> Strategy | None:
    """The approach of an iteration, counted from 1: each in turn, then from the first again."""
    return strategies[(iteration - 1) % len(strategies)] if strategies and iteration > 0 else None


def _any(patterns: Sequence[str], name: str) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )


# Behind a tree of conditions, which may name no limit at all.
HARD_ITERATION_LIMIT = 10
MAX_ITERATIONS = 1_000
QUALITY_THRESHOLD = 0.8
DEFAULT_MAX_ITERATIONS = 3

Pattern = Literal["confidence", "improvement", "checklist", "strategies"]


def _switch(value: object) -> object:
    """YAML reads a bare `on` or `off` as a boolean."""
    return ("on" if value else "off") if isinstance(value, bool) else value


Switch = Annotated[Literal["auto", "on", "off"], BeforeValidator(_switch)]
AutoOrOff = Annotated[Literal["auto", "off"], BeforeValidator(_switch)]
Share = Annotated[float, Field(gt=0, le=1)]


class OutputSettings(FrozenModel):
    """How the output is taken apart, and whether a later prompt shows the previous draft.

    `auto` follows the model: off for a small one, which a bad draft misleads, else on.
    `example_goal` is the goal that the worked examples of the rubric answer.
    """

    parts: PartKind = "whole"
    show_draft: Switch = "auto"
    example_goal: str = ""

    def shows_draft(self, *, small_model: bool) -> bool:
        """Whether the previous draft stands in a later prompt."""
        return self.show_draft == "on" or (self.show_draft == "auto" and not small_model)


# A field that was refused is missing among those that these two are given.
def _default_threshold(fields: dict[str, object]) -> float | None:
    return None if fields.get("pattern") == "improvement" else QUALITY_THRESHOLD


def _default_limit(fields: dict[str, object]) -> int:
    strategies = fields.get("strategies")
    return (
        len(strategies) if isinstance(strategies, tuple) and strategies else DEFAULT_MAX_ITERATIONS
    )


class RefineSettings(FrozenModel):
    """When the refine loop goes on, and when it stops.

    The defaults of threshold and limit come from factories, so they are always written out: a null
    of `improvement` and a number given for it are both read back as they were.
    """

    # The order counts: default factories and validators read the fields above their own.
    pattern: Pattern = "confidence"
    strategies: tuple[Strategy, ...] = ()
    quality_threshold: Share | None = Field(default_factory=_default_threshold)
    max_iterations: int = Field(default_factory=_default_limit, ge=1, le=MAX_ITERATIONS)
    min_iterations: int = Field(default=1, ge=1, le=MAX_ITERATIONS)
    improvement_threshold: float | None = Field(default=0.05, ge=0, le=1)
    regression_threshold: float = Field(default=0.2, ge=0, le=1)
    abort_on_regression: bool = True
    compare_with: CompareWith = "previous"
    skip_eval_confidence: float = Field(default=0.95, ge=0, le=1)
    escalate_below: Share | None = None
    evaluator_share: Share = 0.3
    judge: JudgeSettings = JudgeSettings()
    plan: Switch = "auto"
    classify: AutoOrOff = "auto"
    termination: Condition | None = None
    output: OutputSettings = OutputSettings()
    patience: int = Field(default=2, ge=1, le=MAX_ITERATIONS)

    @field_validator("strategies")
    @classmethod
    def _named_once(cls, value: tuple[Strategy, ...]) -> tuple[Strategy, ...]:
        # The models of a strategy stand under its name, so two of one name would share them.
        twice = repeated([strategy.name for strategy in value])
        if twice:
            raise ValueError(f"each name once (more than once: {', '.join(twice)})")
        return value

    @field_validator("min_iterations")
    @classmethod
    def _within_maximum(cls, value: int, info: ValidationInfo) -> int:
        maximum = info.data.get("max_iterations")
        if maximum is not None and value > maximum:
            raise ValueError(f"at most max_iterations, which is {maximum}")
        return value

    @model_validator(mode="after")
    def _tree_within_maximum(self) -> "RefineSettings":
        if self.termination and largest_limit(self.termination) > MAX_ITERATIONS:
            raise ValueError(f"limits in termination of at most {MAX_ITERATIONS} iterations")
        return self

    @property
    def success_threshold(self) -> float | None:
        """The score that counts as success, from the tree or else from the settings."""
        of_tree = success_threshold(self.termination) if self.termination else None
        return self.quality_threshold if of_tree is None else of_tree

    @property
    def hard_limit(self) -> int:
        """The iterations after which the loop ends whatever else is said."""
        if self.termination is None:
            return self.max_iterations
        limits = (HARD_ITERATION_LIMIT, self.max_iterations, largest_limit(self.termination))
        return max(limits)

    @property
    def planned_limit(self) -> int:
        """The iterations after which the loop ends, in any case of its scores.

        Behind a termination tree the hard limit is higher, and never reached.
        """
        certain = certain_limit(self.termination) if self.termination else None
        return self.hard_limit if certain is None else min(certain, self.hard_limit)


def settings_problems(settings: RefineSettings, rubric: Rubric) -> tuple[Problem, ...]:
    """What does not fit together between the settings and the rubric."""
    return (
        *_strategy_problems(settings),
        *_part_problems(settings.output.parts, rubric),
        *_tree_problems(settings, rubric),
    )


def _tree_problems(settings: RefineSettings, rubric: Rubric) -> tuple[Problem, ...]:
    """Conditions that could never come true in this loop."""
    if settings.termination is None:
        return ()
    found: list[Problem] = []
    for path, leaf in placed_leaves(settings.termination, root="refine.termination"):
        match leaf:
            case EvaluationBound():
                allowed = "confidence, or a role loop: no role approves here, the rubric scores"
            case GoalBound() if not rubric.judged:
                allowed = "a rubric with a judge, which says whether the goal is achieved"
            case _:
                continue
        found.append(Problem(path=path, found=leaf.type, allowed=allowed))
    return tuple(found)


def _strategy_problems(settings: RefineSettings) -> tuple[Problem, ...]:
    found: list[Problem] = []
    wanted, given = settings.pattern == "strategies", bool(settings.strategies)
    if wanted and not given:
        allowed = "at least one approach, as pattern strategies tries them in turn"
        found.append(Problem(path="refine.strategies", found="none", allowed=allowed))
    if given and not wanted:
        count, allowed = f"{len(settings.strategies)} approaches", "none, or pattern: strategies"
        found.append(Problem(path="refine.strategies", found=count, allowed=allowed))
    if wanted and settings.output.parts != "whole":
        allowed = "whole, as each strategy writes an output of its own"
        found.append(
            Problem(path="refine.output.parts", found=settings.output.parts, allowed=allowed)
        )
    return tuple(found)


def _part_problems(kind: PartKind, rubric: Rubric) -> tuple[Problem, ...]:
    return tuple(
        Problem(path=f"rubric[{index}].part", found=format_value(dimension.part), allowed=allowed)
        for index, dimension in enumerate(rubric.dimensions)
        if dimension.part is not None
        if (allowed := _part_problem(dimension.part, kind)) is not None
    )


def bound_to_parts(rubric: Rubric) -> tuple[Problem, ...]:
    """Dimensions that are bound to a part, where an output is never taken apart."""
    return tuple(
        Problem(
            path=f"rubric[{index}].part",
            found=format_value(dimension.part),
            allowed="no part: only a refine run takes its output apart",
        )
        for index, dimension in enumerate(rubric.dimensions)
        if dimension.part is not None
    )


def _part_problem(part: Part, kind: PartKind) -> str | None:
    match kind:
        case "whole":
            return "no part, or refine.output.parts: lines, sections or json_keys"
        case "lines":
            return None if isinstance(part, int) else "the number of a line, from 1"
        case "sections":
            return None if isinstance(part, str) else "a heading, as text in quotes"
        case "json_keys":
            return None if isinstance(part, str) else "a key, as text in quotes"
        case _:
            assert_never(kind)


class RefineSpec(CommonSpec):
    """Execute, evaluate, decide, refine until it is good enough.

    With `output_schema` each draft is a JSON value that fits it; one that does not has no score.
    """

    kind: Literal["refine"]
    rubric: Rubric
    refine: RefineSettings = RefineSettings()
    output_schema: OutputSchema | None = None

    @model_validator(mode="after")
    def _of_one_piece(self) -> Self:
        if self.output_schema is not None and self.refine.output.parts != "whole":
            raise ValueError(
                f"`output_schema` asks for one JSON value, and `refine.output.parts` for "
                f"{self.refine.output.parts}; leave out one of the two"
            )
        return self
