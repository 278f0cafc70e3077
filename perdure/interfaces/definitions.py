"""Ready-made tasks and loop definitions: their purposes, inputs and files."""

import hashlib
from importlib.resources import files
from pathlib import Path
from typing import get_args

import yaml
from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import Problem
from perdure.domain.roles.definition import Capability, LoopDefinition
from perdure.domain.roles.definition_library import Library, StoredDefinition, refusal
from perdure.domain.roles.parse_definition import Fields, owned_problems, read_definition
from perdure.domain.roles.resolved_loop import resolve_loop
from perdure.domain.roles.spec import RolesSpec
from perdure.submission.packaged_tasks import definition_names
from perdure.submission.task_file import read_file

DEFINITIONS = Path(str(files("perdure"))) / "definitions" / "tasks"
EXAMPLE = "example.yaml"
_DIGEST = 8


class Definition(FrozenModel):
    """A ready-made task.

    `inputs` are those that whoever runs it gives, `options` those that have a value already.
    """

    name: str
    kind: str
    about: str
    inputs: tuple[str, ...]
    options: tuple[str, ...]
    text: str


def definitions() -> tuple[Definition, ...]:
    return tuple(definition(name) for name in definition_names(DEFINITIONS))


def definition(name: str) -> Definition:
    """The ready-made task of a known name."""
    path = DEFINITIONS / f"{name}.yaml"
    fields = read_file(path)
    context = fields.get("context")
    inputs: dict[str, JsonValue] = context if isinstance(context, dict) else {}
    return Definition(
        name=name,
        kind=str(fields.get("kind")),
        about=" ".join(str(fields.get("about", "")).split()),
        inputs=tuple(key for key, value in inputs.items() if value is None),
        options=tuple(key for key, value in inputs.items() if value is not None),
        text=path.read_text(encoding="utf-8"),
    )


def example_folder(name: str) -> Path:
    """The packaged example of a ready-made task."""
    return DEFINITIONS / name


def example_beside(path: Path) -> Path:
    """The example of a task file: `example.yaml` in a folder with the file's name.

    Raises:
        InvalidInput: there is none.
    """
    found = path.with_suffix("") / EXAMPLE
    if found.is_file():
        return found
    raise InvalidInput(
        f"There is no example of {path}: {found} is missing.",
        cure="Leave --example out, or run a task that `perdure definitions` names.",
    )


def digest(folder: Path) -> str:
    """A short hash of a folder's content; a changed example is copied again."""
    found = hashlib.sha256()
    # Sorted, as systems list folders in different orders. The zero byte ends a name.
    for path in sorted(item for item in folder.rglob("*") if item.is_file()):
        found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:_DIGEST]


BUILT_IN = DEFINITIONS.parent / "loops"
OPEN = "{{"
LOOPS = "loops"
_OF_LOOPS = frozenset({"termination_condition", "roles"})


def is_loop(path: Path) -> bool:
    """Whether a file is meant as a loop definition: tasks have a kind, loops a list of roles.

    An unreadable file counts as none; the caller that reads it next reports the error.
    """
    try:
        fields = read_file(path)
    except InvalidInput:
        return False
    if "kind" in fields or "goal" in fields:
        return False
    return bool(_OF_LOOPS & fields.keys()) or path.parent.name == LOOPS


def checked_loop(fields: Fields, *, named: str) -> LoopDefinition:
    """Read a loop definition from its fields.

    Raises:
        InvalidInput: anything is wrong; the message lists every problem.
    """
    read = read_definition(fields)
    owned = owned_problems(fields)
    wrong = (*owned, *(read if isinstance(read, tuple) else ()))
    if isinstance(read, tuple) or wrong:
        raise refusal(wrong, what=f"The loop definition {named}")
    return read


def named_loop_problems(spec: RolesSpec, library: Library) -> tuple[Problem, ...]:
    """What is wrong with the loop or the parameters that a task names.

    Whether the installation has what the loop requires is checked only at the start.
    """
    resolved = resolve_loop(
        library,
        spec.roles.definition,
        goal=spec.goal,
        parameters=spec.roles.parameters,
        provided=get_args(Capability),
    )
    return resolved.problems


def inner_loop_problems(
    loop: LoopDefinition, fields: Fields, library: Library
) -> tuple[Problem, ...]:
    """What is wrong with the loops that stages of a definition run, as far as its file says.

    Args:
        loop: the definition.
        fields: the same, as written.
        library: what else can be named; the definition goes over its namesake there.
    """
    own = StoredDefinition(
        name=loop.name, origin="workspace", version="", fields=fields, definition=loop
    )
    # What is given at the start stands for itself, and what depends on it is looked at then.
    given: dict[str, JsonValue] = {
        one.name: one.choices[0] if one.choices else f"{OPEN}{one.name}}}}}"
        for one in loop.parameters
        if one.required
    }
    resolved = resolve_loop(
        Library({**library.definitions, loop.name: own}, library.roles),
        loop.name,
        goal="",
        parameters=given,
        provided=get_args(Capability),
    )
    return tuple(problem for problem in resolved.problems if OPEN not in str(problem))


def loop_text(loop: StoredDefinition) -> str:
    """A definition's file as its author wrote it, with comments; without a file, generated YAML."""
    path = BUILT_IN / f"{loop.name}.yaml" if loop.path is None else Path(loop.path)
    if path.is_file() and path.suffix != ".json":
        return path.read_text(encoding="utf-8-sig")
    return yaml.safe_dump(loop.fields, sort_keys=False, allow_unicode=True, width=100)
