"""What a submission is made from, what comes of it, and how the workers see it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue

from perdure.domain.evaluation.rubric import RubricProblems, no_problems
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import LOCAL_MODELS, LoopKind
from perdure.domain.llm.attachments import Measure, not_measured
from perdure.domain.specs import Spec

ModelNotes = Callable[[Sequence[str]], tuple[str, ...]]


def no_notes(_: Sequence[str]) -> tuple[str, ...]:
    """Nothing to tell: for what knows no provider."""
    return ()


def may_judge(model: str) -> bool:
    """Whether a model may evaluate: the embedded one never does."""
    return model not in LOCAL_MODELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What a command line says over the file; `sets` are texts such as `budget.tokens=5000`.

    `example` is a file of inputs, and of a model to play, that goes between the file and the rest;
    `fields` are fields as such, below the others.
    """

    kind: LoopKind | None = None
    iterate: int | None = None
    quality: float | None = None
    budget: Mapping[str, JsonValue] = field(default_factory=dict)
    model: str | None = None
    sets: tuple[str, ...] = ()
    example: Path | None = None
    fields: Mapping[str, JsonValue] = field(default_factory=dict)


class NobodyJudges(InvalidInput):
    """Nothing can be evaluated with the model that would judge; another default may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The folder, settings and models that a submission is made with.

    Args:
        folder: the folder of the command; None means an interface that may read no files (REST).
        user_defaults: the user's own `perdure.yaml`, which need not exist.
        default_model: what runs use that name no model.
        judges: whether a model may evaluate.
        definitions: the folder of the ready-made tasks, which are known by name.
        rubric_problems: finds patterns and schemas of a rubric that cannot be used.
        model_notes: says which models end soon.
        measure: reads pixels and pages of images and PDFs; where it does not, a run's opening does.
        settings: keys of a `perdure.yaml` that are settings of the installation, no fields.
    """

    folder: Path | None
    user_defaults: Path | None = None
    default_model: str = "local"
    judges: Callable[[str], bool] = may_judge
    definitions: Path | None = None
    rubric_problems: RubricProblems = no_problems
    model_notes: ModelNotes = no_notes
    measure: Measure = not_measured
    settings: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A valid specification, the files that must be stored before it starts, and what to tell.

    `blobs` is keyed by the plain address (`sha256:…`) that the specification uses. `name` is that
    of the task's file, which says in fewer words than the goal what a run is about.
    """

    spec: Spec
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    name: str = ""


Make = Callable[[Surroundings], Submission]
AskDefault = Callable[[], Awaitable[str | None]]


async def as_workers_see(
    make: Make, surroundings: Surroundings, default_model: AskDefault
) -> Submission:
    """Make a submission, and make it again where it depends on a default that is another there.

    Args:
        make: reads the task.
        surroundings: of this host.
        default_model: asks the workers; None when none says.

    Raises:
        InvalidInput: the task cannot be run, with the workers' default either.
    """
    try:
        submission = make(surroundings)
    except NobodyJudges:
        if (seen := await _seen(surroundings, default_model)) is None:
            raise
        return make(seen)
    if submission.spec.models.executor is not None:
        return submission
    seen = await _seen(surroundings, default_model)
    return submission if seen is None else make(seen)


async def _seen(surroundings: Surroundings, default_model: AskDefault) -> Surroundings | None:
    """The surroundings with the workers' default; None when it is no other."""
    default = await default_model()
    if default is None or default == surroundings.default_model:
        return None
    return replace(surroundings, default_model=default)
