"""The definition of done: dimensions, their weights, and who or what evaluates each."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    Tag,
    model_validator,
)

from perdure.domain.base import Frozen
from perdure.domain.checks import (
    CHECK_KINDS,
    ContainsCheck,
    EqualsCheck,
    JsonSchemaCheck,
    LengthCheck,
    RegexCheck,
)
from perdure.domain.problems import nearest_name, shown

DEFAULT_WEIGHT = 1.0
DEFAULT_WEIGHTS: Mapping[str, float] = {"tests": 0.3, "lint": 0.2}

ScoreSource = Literal["judge", "check", "human"]


class JudgeParameters(Frozen):
    """A judge takes none: the dimension's description says what to look at."""


class JudgeEvaluator(Frozen):
    """A model call in its own context scores the dimension."""

    judge: JudgeParameters


class WorkedExample(Frozen):
    """A request and its right answer, for another subject than the task's."""

    ask: str = Field(min_length=1)
    answer: str = Field(min_length=1)


def _evaluator_tag(value: object) -> str:
    if isinstance(value, JudgeEvaluator):
        return "as_judge"
    if isinstance(value, dict):
        return "as_judge" if "judge" in value else str(value.get("check"))
    return str(getattr(value, "check", None))


def _known_kind(value: object) -> object:
    """Refuse what cannot be evaluated, before the union gives a less helpful answer."""
    if not isinstance(value, dict) or "judge" in value:
        return value
    kind = value.get("check", next(iter(value), None))
    if kind in CHECK_KINDS and "check" in value:
        return value
    allowed = f"judge: {{}}, or check: one of {', '.join(CHECK_KINDS)}"
    near = nearest_name(str(kind), (*CHECK_KINDS, "judge"))
    raise ValueError(
        f"{allowed} ({shown(kind)} cannot be evaluated{f'; did you mean {near}?' if near else ''})"
    )


Evaluator = Annotated[
    Annotated[JudgeEvaluator, Tag("as_judge")]
    | Annotated[ContainsCheck, Tag("contains")]
    | Annotated[RegexCheck, Tag("regex")]
    | Annotated[LengthCheck, Tag("length")]
    | Annotated[JsonSchemaCheck, Tag("json_schema")]
    | Annotated[EqualsCheck, Tag("equals")],
    Discriminator(_evaluator_tag),
    BeforeValidator(_known_kind),
]


class Dimension(Frozen):
    """One aspect that is scored.

    Args:
        weight: its part in the overall score; None means the default of its kind.
        decides: a check on which success depends; all of them passing ends the run at once.
        part: the part of the output it looks at, from 1 (a line, with `output.parts: lines`).
        hint: what it demands, in the words for the model that writes.
        example: a worked example of the whole part; one dimension of a part gives it.
    """

    name: str = Field(min_length=1)
    evaluator: Evaluator
    description: str = ""
    weight: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    decides: bool = False
    part: int | None = Field(default=None, ge=1)
    hint: str = ""
    example: WorkedExample | None = None

    @model_validator(mode="after")
    def _only_checks_decide(self) -> "Dimension":
        if self.is_judged and self.decides:
            raise ValueError(
                "decides on a check only: a model's opinion never ends a run by itself"
            )
        if self.is_judged and self.part is not None:
            raise ValueError("part on a check only: a judge looks at the whole output")
        return self

    @property
    def is_judged(self) -> bool:
        """Whether a model scores it."""
        return isinstance(self.evaluator, JudgeEvaluator)

    @property
    def source(self) -> ScoreSource:
        """Where its scores come from."""
        return "judge" if self.is_judged else "check"

    @property
    def effective_weight(self) -> float:
        """Its weight, or the default of its kind."""
        if self.weight is not None:
            return self.weight
        kind = "judge" if isinstance(self.evaluator, JudgeEvaluator) else self.evaluator.check
        return DEFAULT_WEIGHTS.get(kind, DEFAULT_WEIGHT)

    def passes(self, score: float | None, threshold: float | None = None) -> bool:
        """Whether a score means done: 1.0 for a check, `threshold` (or 1.0) for a judge."""
        target = threshold if self.is_judged and threshold is not None else 1.0
        return score is not None and score >= target


class Rubric(RootModel[tuple[Dimension, ...]]):
    """The dimensions of a task, in order; not empty, names unique."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="after")
    def _usable(self) -> "Rubric":
        names = [dimension.name for dimension in self.root]
        if not names:
            raise ValueError("at least one dimension")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"each name once (more than once: {', '.join(twice)})")
        return self

    def __len__(self) -> int:
        return len(self.root)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """All dimensions."""
        return self.root

    @property
    def checks(self) -> tuple[Dimension, ...]:
        """The dimensions that code evaluates."""
        return tuple(item for item in self.root if not item.is_judged)

    @property
    def judged(self) -> tuple[Dimension, ...]:
        """The dimensions that a model evaluates."""
        return tuple(item for item in self.root if item.is_judged)

    @property
    def parts(self) -> tuple[int, ...]:
        """The numbers of the parts that dimensions are bound to, ascending."""
        return tuple(sorted({item.part for item in self.root if item.part is not None}))

    def of_part(self, part: int) -> Iterator[Dimension]:
        """The dimensions bound to one part."""
        return (item for item in self.root if item.part == part)

    def example_of(self, part: int) -> WorkedExample | None:
        """The worked example of a part, or None."""
        return next((item.example for item in self.of_part(part) if item.example), None)

    def get(self, name: str) -> Dimension | None:
        """A dimension by name."""
        return next((item for item in self.root if item.name == name), None)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form: a run's rubric is frozen by it."""
        data = self.model_dump(mode="json", by_alias=True)
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
