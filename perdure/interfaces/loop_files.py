"""Loop definitions as files that people write: told from tasks, checked, and shown as they are."""

from pathlib import Path
from typing import get_args

import yaml

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import Problem
from perdure.domain.roles.definition import Capability, LoopDefinition
from perdure.domain.roles.definition_library import Library, StoredDefinition, refusal
from perdure.domain.roles.parse_definition import Fields, owned_problems, read_definition
from perdure.domain.roles.resolved_loop import resolve_loop
from perdure.domain.roles.spec import RolesSpec
from perdure.interfaces.definitions import DEFINITIONS
from perdure.submission.parse_yaml import read_file

BUILT_IN = DEFINITIONS.parent / "loops"
_OF_LOOPS = frozenset({"termination_condition", "roles"})


def is_loop(path: Path) -> bool:
    """Whether a file is meant as a loop definition: a task has a kind, a loop has roles in a list.

    A file that cannot be read is none; whoever reads it next says why.
    """
    try:
        fields = read_file(path)
    except InvalidInput:
        return False
    if "kind" in fields or "goal" in fields:
        return False
    return bool(_OF_LOOPS & fields.keys()) or path.parent.name == "loops"


def checked_loop(fields: Fields, *, named: str) -> LoopDefinition:
    """The definition that the fields make.

    Raises:
        InvalidInput: anything is wrong; the message lists it all.
    """
    read = read_definition(fields)
    owned = owned_problems(fields)
    wrong = (*owned, *(read if isinstance(read, tuple) else ()))
    if isinstance(read, tuple) or wrong:
        raise refusal(wrong, what=f"The loop definition {named}")
    return read


def named_loop_problems(spec: RolesSpec, library: Library) -> tuple[Problem, ...]:
    """What is wrong with the loop and the parameters that a task names.

    Whether the installation offers what the loop requires is for the start to say.
    """
    resolved = resolve_loop(
        library,
        spec.roles.definition,
        goal=spec.goal,
        parameters=spec.roles.parameters,
        provided=get_args(Capability),
    )
    return resolved.problems


def loop_text(loop: StoredDefinition) -> str:
    """A definition's file as its author wrote it, comments included, where there is one."""
    path = BUILT_IN / f"{loop.name}.yaml" if loop.path is None else Path(loop.path)
    if path.is_file() and path.suffix != ".json":
        return path.read_text(encoding="utf-8-sig")
    return yaml.safe_dump(loop.fields, sort_keys=False, allow_unicode=True, width=100)
