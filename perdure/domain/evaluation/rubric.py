"""The definition of done: dimensions, their weights, and who or what evaluates each."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, RootModel, field_validator, model_validator

from perdure.domain.evaluation.checks import PURE_KINDS, Check, PluginCheck
from perdure.domain.evaluation.evaluators import (
    Evaluator,
    HumanEvaluator,
    HumanParameters,
    JudgeEvaluator,
    JudgeParameters,
)
from perdure.domain.evaluation.program_checks import (
    VERIFIED_KINDS,
    Argv,
    CommandCheck,
    LintCheck,
    TestsCheck,
    VerifiedCheck,
)
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import Problem, format_value, nearest_name, repeated

__all__ = [
    "Dimension",
    "HumanEvaluator",
    "HumanParameters",
    "JudgeEvaluator",
    "JudgeParameters",
    "Part",
    "PartKind",
    "Rubric",
    "ScoreSource",
    "WorkedExample",
]

DEFAULT_WEIGHT = 1.0
DEFAULT_WEIGHTS: Mapping[str, float] = {"tests": 0.3, "lint": 0.2}

VERIFIED = (CommandCheck, TestsCheck, LintCheck)

ScoreSource = Literal["judge", "check", "human"]
# The number of a line, the heading of a section, the key of a JSON object.
Part = int | str
PartKind = Literal["whole", "lines", "sections", "json_keys"]


class WorkedExample(FrozenModel):
    """A request and its right answer, for another subject than the task's."""

    ask: str = Field(min_length=1)
    answer: str = Field(min_length=1)


class Dimension(FrozenModel):
    """One aspect that is scored.

    Args:
        weight: its part in the overall score; None means the default of its kind.
        decides: a check on which success depends; all of them passing ends the run at once.
        part: the part of the output it looks at, as `output.parts` says: the number of a line from
            1, the heading of a section, or a key of a JSON object.
        hint: what it demands, in the words for the model that writes.
        example: a worked example of the whole part; one dimension of a part gives it.
        secret: what it demands is not told to whoever writes; what it found missing is.
    """

    name: str = Field(min_length=1)
    evaluator: Evaluator
    description: str = ""
    # An infinite weight would make the mean no number.
    weight: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    decides: bool = False
    part: Part | None = None
    hint: str = ""
    example: WorkedExample | None = None
    # Left out while it is false: a rubric without it keeps its digest over versions.
    secret: bool = Field(default=False, exclude_if=lambda secret: not secret)

    @field_validator("part")
    @classmethod
    def _names_a_part(cls, value: Part | None) -> Part | None:
        if value is not None and (value < 1 if isinstance(value, int) else not value.strip()):
            raise ValueError("the number of a line from 1, a heading, or a key")
        return value

    @model_validator(mode="after")
    def _only_checks_decide(self) -> "Dimension":
        if (self.is_judged or self.is_human) and self.decides:
            raise ValueError("decides on a check only: an opinion never ends a run by itself")
        if self.pure_check is None and self.part is not None:
            raise ValueError("part on a check only, of the text alone: all else looks at the whole")
        return self

    @property
    def is_judged(self) -> bool:
        """Whether a model scores it."""
        return isinstance(self.evaluator, JudgeEvaluator)

    @property
    def is_human(self) -> bool:
        """Whether a person scores it."""
        return isinstance(self.evaluator, HumanEvaluator)

    @property
    def pure_check(self) -> Check | None:
        """Its check, if that needs only the text."""
        given = self.evaluator
        opinion = isinstance(given, JudgeEvaluator | HumanEvaluator)
        return None if opinion or isinstance(given, VERIFIED) else given

    @property
    def verified_check(self) -> VerifiedCheck | None:
        """Its check, if that runs a program."""
        return self.evaluator if isinstance(self.evaluator, VERIFIED) else None

    @property
    def judge(self) -> str | None:
        """The model that judges it, where the rubric names one."""
        return self.evaluator.judge.model if isinstance(self.evaluator, JudgeEvaluator) else None

    @property
    def question(self) -> str:
        """What a person is asked about it, beside its description."""
        return self.evaluator.human.prompt if isinstance(self.evaluator, HumanEvaluator) else ""

    @property
    def source(self) -> ScoreSource:
        """Where its scores come from."""
        if self.is_human:
            return "human"
        return "judge" if self.is_judged else "check"

    @property
    def effective_weight(self) -> float:
        """Its weight, or the default of its kind."""
        # Zero is a weight too: the dimension is shown, and does not count.
        if self.weight is not None:
            return self.weight
        verified = self.verified_check
        return DEFAULT_WEIGHTS.get(verified.check, DEFAULT_WEIGHT) if verified else DEFAULT_WEIGHT

    def passes(self, score: float | None, threshold: float | None = None) -> bool:
        """Whether a score means done: 1.0 for a check, `threshold` (or 1.0) for an opinion."""
        by_opinion = self.is_judged or self.is_human
        target = threshold if by_opinion and threshold is not None else 1.0
        return score is not None and score >= target


class Rubric(RootModel[tuple[Dimension, ...]]):
    """The dimensions of a task, in order; not empty, names unique."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="after")
    def _usable(self) -> "Rubric":
        # Scores, findings and what is carried are found by name alone.
        names = [dimension.name for dimension in self.root]
        if not names:
            raise ValueError("at least one dimension")
        twice = repeated(names)
        if twice:
            raise ValueError(f"each name once (more than once: {', '.join(twice)})")
        return self

    def __len__(self) -> int:
        return len(self.root)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        return self.root

    @property
    def checks(self) -> tuple[Dimension, ...]:
        """The dimensions that built-in or plugin code evaluates from the text alone."""
        return tuple(item for item in self.root if item.pure_check is not None)

    @property
    def verified(self) -> tuple[Dimension, ...]:
        """The dimensions that programs evaluate: commands, tests, linters."""
        return tuple(item for item in self.root if item.verified_check is not None)

    @property
    def human(self) -> tuple[Dimension, ...]:
        """The dimensions that a person evaluates."""
        return tuple(item for item in self.root if item.is_human)

    @property
    def judged(self) -> tuple[Dimension, ...]:
        """The dimensions that a model evaluates."""
        return tuple(item for item in self.root if item.is_judged)

    @property
    def judges(self) -> dict[str | None, tuple[str, ...]]:
        """The judged dimensions by the model that judges them; None is the run's evaluator."""
        found: dict[str | None, tuple[str, ...]] = {}
        for item in self.judged:
            found[item.judge] = (*found.get(item.judge, ()), item.name)
        return found

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts that dimensions are bound to: numbers ascending, names as they come."""
        bound = dict.fromkeys(item.part for item in self.root if item.part is not None)
        numbers = sorted(part for part in bound if isinstance(part, int))
        return (*numbers, *(part for part in bound if isinstance(part, str)))

    def of_part(self, part: Part) -> Iterator[Dimension]:
        return (item for item in self.root if item.part == part)

    def example_of(self, part: Part) -> WorkedExample | None:
        return next((item.example for item in self.of_part(part) if item.example), None)

    def get(self, name: str) -> Dimension | None:
        return next((item for item in self.root if item.name == name), None)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form: a run's rubric is frozen by it."""
        data = self.model_dump(mode="json", by_alias=True)
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


RubricProblems = Callable[[Rubric], Sequence[Problem]]


def meant_name(said: str, names: Collection[str]) -> str | None:
    """The name that is meant: as it is written, else the only one that is so but for case.

    Outer blanks make no difference either. Stored rubrics may hold several such names.
    """
    if said in names:
        return said
    alike = [name for name in names if _bare(name) == _bare(said)]
    return alike[0] if len(alike) == 1 else None


def name_problems(rubric: Rubric) -> tuple[Problem, ...]:
    """Names that judges and people cannot tell apart, or not write as they are."""
    # Not in `Rubric` itself, since stored ones must load.
    found: list[Problem] = []
    taken: dict[str, str] = {}
    for index, item in enumerate(rubric.dimensions):
        first = taken.setdefault(_bare(item.name), item.name)
        if first != item.name:
            allowed = f"a name that differs from {first!r} in more than case and outer blanks"
        elif item.name != item.name.strip():
            allowed = "a name with no blanks around it"
        else:
            continue
        path = f"rubric[{index}].name"
        found.append(Problem(path=path, found=format_value(item.name), allowed=allowed))
    return tuple(found)


def _bare(name: str) -> str:
    return name.strip().casefold()


def no_problems(_: Rubric) -> tuple[Problem, ...]:
    """Finds nothing: for what has no way to compile patterns and schemas."""
    return ()


class WorkerRequirements(FrozenModel):
    """What a worker must have: programs and checks of plugins, by dimension of a rubric.

    `capabilities` are those that definitions require, by the place that requires them.
    """

    programs: dict[str, Annotated[VerifiedCheck, Field(discriminator="check")]] = {}
    checks: dict[str, str] = {}
    capabilities: dict[str, tuple[str, ...]] = {}

    def and_program(self, name: str, argv: Argv) -> "WorkerRequirements":
        """Also a program that no dimension names; told under `name` where it is missing."""
        check = CommandCheck(check="command", argv=argv)
        return self.model_copy(update={"programs": {**self.programs, name: check}})


def needs_of(rubric: Rubric) -> WorkerRequirements:
    return WorkerRequirements(
        programs={
            item.name: item.verified_check
            for item in rubric.dimensions
            if item.verified_check is not None
        },
        checks={
            item.name: item.evaluator.check
            for item in rubric.dimensions
            if isinstance(item.evaluator, PluginCheck)
        },
    )


def unknown_checks(rubric: Rubric, known: Collection[str]) -> tuple[Problem, ...]:
    """Checks that are neither built in nor among the names that plugins bring."""
    names = (*PURE_KINDS, *VERIFIED_KINDS, *sorted(known))
    return tuple(
        Problem(
            path=f"rubric[{index}].evaluator.check",
            found=format_value(item.evaluator.check),
            allowed="one of " + ", ".join(names) + ", or a check of a plugin (--plugin FILE)",
            nearest=nearest_name(item.evaluator.check, names),
        )
        for index, item in enumerate(rubric.dimensions)
        if isinstance(item.evaluator, PluginCheck) and item.evaluator.check not in known
    )
