"""What a submission is made from, and its result; adapts it to the workers' default model."""

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
    """No notes about models: for callers that know no provider."""
    return ()


def may_judge(model: str) -> bool:
    """Whether a model may evaluate; the embedded model may not."""
    return model not in LOCAL_MODELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The flags of a command, which override the file; `sets` are texts like `budget.tokens=5000`.

    `example` is a file with inputs, and a scripted model, that overrides the task file. `fields`
    are fields of the task; the other flags override them.
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
    """The only evaluator is a model that may not judge; another default model may be able to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The folder, settings and models with which a submission is made.

    Args:
        folder: the folder of the command; None means an interface that may read no files (REST).
        user_defaults: the user's own `perdure.yaml`, which need not exist.
        default_model: the model of runs that name none.
        judges: whether a model may evaluate.
        definitions: the folder of the built-in tasks.
        rubric_problems: finds patterns and schemas of a rubric that cannot be used.
        model_notes: warns about models that retire soon.
        measure: counts pixels and pages of images and PDFs; by default the worker does that.
        settings: keys of a `perdure.yaml` that are settings, and not fields of a task.
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
    """A valid specification, the files to store before it starts, and notes for people.

    The keys of `blobs` are the plain addresses (`sha256:…`) in the specification. `name` is that
    of the task file, which is shorter than the goal.
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
    """Make a submission, and again if it depends on the default model and workers have another.

    Args:
        make: reads the task.
        surroundings: of this host.
        default_model: asks the workers for theirs; None if no worker answers.

    Raises:
        InvalidInput: the task cannot run, even with the workers' default model.
    """
    try:
        submission = make(surroundings)
    except NobodyJudges:
        # The workers' default model may be able to judge where this host's is not.
        if (seen := await _seen(surroundings, default_model)) is None:
            raise
        return make(seen)
    # With an executor named, nothing depends on the default, so the workers are not asked.
    if submission.spec.models.executor is not None:
        return submission
    seen = await _seen(surroundings, default_model)
    return submission if seen is None else make(seen)


async def _seen(surroundings: Surroundings, default_model: AskDefault) -> Surroundings | None:
    """The surroundings with the workers' default model; None if it is the same."""
    default = await default_model()
    if default is None or default == surroundings.default_model:
        return None
    return replace(surroundings, default_model=default)
