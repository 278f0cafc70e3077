"""Turns a task file, a goal, a REST body or another run into a valid specification."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.foundation.problems import Problem, format_value
from perdure.domain.ports import BlobStore
from perdure.domain.run.spec import ROLES, ROOT_RUN, STARTED_BY
from perdure.domain.specs import RUN_SPEC, Spec
from perdure.submission.file_references import References, with_addresses
from perdure.submission.goals import goal_fields, without_vain_judges
from perdure.submission.layers import (
    DEFAULTS_FILE,
    Fields,
    Layer,
    flag_fields,
    kind_of,
    meant_kind,
    merged,
    values_at,
    with_lists,
)
from perdure.submission.packaged_tasks import definition_file, open_inputs
from perdure.submission.task_file import FILE_SUFFIXES, fields_of, is_readable, read_file
from perdure.submission.types import Flags, Submission, Surroundings
from perdure.submission.validation import idle_notes, validated

NO_FLAGS = Flags()

# By a snapshot of its own, a run would have other stages than the definition that it names, which
# is the one that is judged by who may start it.
_SNAPSHOT = (
    "the installation takes the snapshot from the definition. Leave it out, and name a definition "
    "with roles.definition"
)
_BELONGS = (
    "it says which run's agent started a loop, and is set by the tools that start loops. Leave it "
    "out, or use another name"
)
RESERVED: Mapping[tuple[str, str], str] = {
    ("roles", "snapshot"): _SNAPSHOT,
    ("metadata", STARTED_BY): _BELONGS,
    ("metadata", ROOT_RUN): _BELONGS,
}


def load(task: str, flags: Flags = NO_FLAGS, *, surroundings: Surroundings) -> Submission:
    """Read a task file, or take the text as a goal.

    Later sources override earlier ones: built-in defaults, the user's `perdure.yaml`, the folder's,
    the task file, the flags. References are read inside the folder of the task file.

    Raises:
        NotFound: the text looks like a file that does not exist.
        InvalidInput: something is wrong; the message lists all problems.
    """
    here = surroundings.folder
    path = _task_file(task, surroundings)
    if path is None:
        own = Layer(name="the goal", fields=goal_fields(task, flags), folder=here)
        return _submitted(own, flags, surroundings, defaults_folder=here)
    # In a built-in task, `workspace: .` means the folder of the command; a pipe has no folder.
    apart = path.parent == surroundings.definitions or not path.is_file()
    folder = here if apart else path.parent
    fields = read_file(path)
    # Refuse a script of the scripted model, which is often next to tasks and looks like one.
    if "replies" in fields and "goal" not in fields:
        raise InvalidInput(
            f"{path} is a script of the scripted model, not a task.",
            cure=f'Let it play the model of one: perdure run "a goal" --model scripted:{path.name}',
        )
    own = Layer(name=str(path), fields=fields, folder=folder)
    found = _submitted(own, flags, surroundings, defaults_folder=folder)
    return replace(found, name=path.stem) if path.is_file() else found


def load_data(
    data: JsonValue, flags: Flags = NO_FLAGS, *, surroundings: Surroundings
) -> Submission:
    """Read a specification from data, as REST and other programs send it."""
    fields = fields_of(data, named="The specification")
    own = Layer(name="the request", fields=fields, folder=surroundings.folder)
    return _submitted(own, flags, surroundings, defaults_folder=surroundings.folder)


def load_spec(spec: Spec, *, surroundings: Surroundings) -> Submission:
    """Read the files that a specification names, as those of its fields would be read.

    Raises:
        InvalidInput: a reference does not fit; the message lists all problems.
    """
    whole: Fields = spec.model_dump(mode="json", by_alias=True)
    references = References(surroundings.measure)
    own = Layer(name="the specification", fields=whole, folder=surroundings.folder)
    layer = references.resolved(own)
    if layer.fields == whole and not references.problems:
        return Submission(spec=spec, blobs=references.blobs)
    read = validated(
        dict(layer.fields),
        [layer],
        problems=references.problems,
        rubric_problems=surroundings.rubric_problems,
    )
    return Submission(spec=read, blobs=references.blobs)


async def store(submission: Submission, blobs: BlobStore) -> Spec:
    """Put the files of a submission into the blob store.

    Returns:
        The specification to start, with the addresses that the store returned.
    """
    # A store that encrypts names its blobs by keyed hashes.
    moved = {address: await blobs.put(data) for address, data in submission.blobs.items()}
    if all(old == new for old, new in moved.items()):
        return submission.spec
    fields: Fields = submission.spec.model_dump(mode="json", by_alias=True)
    return RUN_SPEC.validate_python(with_addresses(fields, lambda old: moved.get(old, old)))


def _submitted(
    own: Layer, flags: Flags, surroundings: Surroundings, *, defaults_folder: Path | None
) -> Submission:
    defaults, notes = _defaults(surroundings, defaults_folder)
    given = [*defaults, own]
    kind = meant_kind(flags.kind or kind_of(given))
    if flags.example is not None:
        example = flags.example
        given.append(Layer(name=str(example), fields=read_file(example), folder=example.parent))
    said, problems = flag_fields(flags, kind)
    # Files in flags are named from where the command is given, not from where its task is.
    given.append(Layer(name="the flags", fields=said, folder=surroundings.folder))
    references = References(surroundings.measure)
    layers = [references.resolved(layer) for layer in given]
    whole, nowhere = _with_lists(merged(layers, kind), flags, references, surroundings)
    problems += nowhere
    wrong = [*problems, *references.problems, *open_inputs(whole), *reserved(whole, {})]
    spec = validated(whole, layers, problems=wrong, rubric_problems=surroundings.rubric_problems)
    spec, unjudged = without_vain_judges(spec, surroundings)
    executor = spec.models.chain("executor") or (surroundings.default_model,)
    named = [*executor, *(name for role in ROLES for name in spec.models.chain(role))]
    models = surroundings.model_notes(named)
    notes = (*models, *unjudged, *idle_notes(whole), *notes)
    return Submission(spec=spec, blobs=references.blobs, notes=notes)


def _with_lists(
    whole: Fields, flags: Flags, references: References, surroundings: Surroundings
) -> tuple[Fields, list[Problem]]:
    """The fields with each `--set` into a list, and its problems; scripts in these are read too."""
    placed, nowhere = with_lists(whole, flags)
    if placed is not whole:
        # The layers were resolved before, each in its folder; these are only known from here on.
        placed = references.with_scripts(placed, surroundings.folder)
    return placed, nowhere


def _defaults(around: Surroundings, folder: Path | None) -> tuple[list[Layer], list[str]]:
    """The existing files of defaults, lowest first, and notes about settings in them.

    Settings in the file of another folder have no effect on this command.
    """
    found = [around.user_defaults, None if folder is None else folder / DEFAULTS_FILE]
    layers: list[Layer] = []
    notes: list[str] = []
    # Once each: the user's own file is also that of its folder.
    for path in dict.fromkeys(path for path in found if path is not None and path.is_file()):
        fields = read_file(path)
        settings = sorted(around.settings & fields.keys())
        kept = {name: value for name, value in fields.items() if name not in around.settings}
        layers.append(Layer(name=str(path), fields=kept, folder=path.parent, defaults=True))
        if settings and path != around.user_defaults and path.parent != around.folder:
            notes.append(
                f"{path}: {', '.join(settings)} count for commands that are given in that folder"
            )
    return layers, notes


def _task_file(task: str, surroundings: Surroundings) -> Path | None:
    folder = surroundings.folder
    if not task.strip():
        raise InvalidInput(
            "The goal is empty.", cure='Give a task file, or a goal: perdure run "a goal".'
        )
    if folder is None or "\n" in task:
        return None
    try:
        path = (folder / task).absolute()
        if is_readable(path):
            return path
    except (OSError, ValueError):
        return None  # too long for a path, or with characters that no path has: it is a goal
    defined = definition_file(task, surroundings.definitions)
    if defined is not None:
        return defined
    looks_like_one = path.suffix.lower() in FILE_SUFFIXES and " " not in task.strip()
    if looks_like_one or path.is_dir():
        raise NotFound(f"There is no task file {path}.", cure='`perdure new "a goal"` writes one.')
    return None


def revise(
    spec: Spec,
    flags: Flags,
    *,
    surroundings: Surroundings,
    goal: str | None = None,
    label: str | None = None,
) -> Submission:
    """Apply flags, a goal and a label to a specification.

    Raises:
        InvalidInput: the changed specification is not valid; the message lists all problems.
    """
    whole: Fields = spec.model_dump(mode="json", by_alias=True)
    # Without files of defaults: the run has them, as they were when it started.
    own = Layer(name="the run", fields=whole)
    said, problems = flag_fields(flags, spec.kind)
    told: Fields = {} if goal is None else {"goal": goal}
    if label is not None:
        told["metadata"] = {"label": label}
    references = References(surroundings.measure)
    flagged = Layer(name="the flags", fields=said, folder=surroundings.folder)
    # The references of the run itself were resolved when it was started.
    layers = [own, references.resolved(flagged), Layer(name="the flags", fields=told)]
    fields, nowhere = _with_lists(merged(layers, spec.kind), flags, references, surroundings)
    problems += nowhere
    revised = validated(
        fields,
        layers,
        problems=[*problems, *references.problems, *reserved(fields, whole)],
        rubric_problems=surroundings.rubric_problems,
    )
    # What flags leave out counts as the run has it: by kind and memory others have an effect.
    noted: Fields = {"recall": spec.recall} if spec.kind == "agent" else {}
    notes = idle_notes({**noted, **said, "kind": spec.kind})
    return Submission(spec=revised, blobs=references.blobs, notes=notes)


def reserved(whole: Fields, before: Fields) -> list[Problem]:
    """The reserved fields that are not as before.

    Args:
        whole: the fields of a specification.
        before: those of the run that it is made from, which may have been filled in; else none.
    """
    return [
        Problem(path=".".join(steps), found=f"found {format_value(now)}", why=why)
        for steps, why in RESERVED.items()
        # What is null is not there.
        if (now := next(values_at(whole, steps), None)) != next(values_at(before, steps), None)
    ]
