"""Texts of definitions and role files as data; the reader of YAML is handed in."""

import json
import re
from typing import Protocol

from pydantic import JsonValue, ValidationError

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import Problem, problems_of
from perdure.domain.roles.definition import LoopDefinition, ModelNames
from perdure.domain.roles.definition_library import Origin, RoleFile, StoredDefinition, refusal
from perdure.domain.roles.parse_definition import content_version, owned_problems, read_definition
from perdure.domain.tools.definitions import AccessLevel

MAX_BYTES = 128 * 1024
_FRONT = re.compile(r"\A---[ \t]*\n(?P<facts>.*?)\n?---[ \t]*(?:\n|\Z)(?P<body>.*)\Z", re.DOTALL)


class Parse(Protocol):
    """Reads YAML or JSON, bounded; raises `InvalidInput` naming what was read."""

    def __call__(self, text: str, *, named: str) -> JsonValue:
        """The data in a text."""
        ...


class _RoleFacts(FrozenModel):
    """What stands between two lines of `---` at the top of a role's file."""

    access: AccessLevel = "readonly"
    model: ModelNames | None = None
    tools: tuple[str, ...] | None = None


def stored(
    fields: JsonValue, *, origin: Origin, path: str | None = None
) -> StoredDefinition | tuple[Problem, ...]:
    """A definition as it is stored, or everything wrong with it."""
    unusable = measured(fields)
    if unusable:
        return unusable
    owned = owned_problems(fields)
    bare = fields
    if owned and isinstance(fields, dict):
        # Told once: as fields that nobody sets, not as unknown ones too.
        names = {problem.path for problem in owned}
        bare = {name: value for name, value in fields.items() if name not in names}
    read = read_definition(bare)
    if not isinstance(read, LoopDefinition) or not isinstance(fields, dict) or owned:
        return (*owned, *(read if isinstance(read, tuple) else ()))
    return StoredDefinition(
        name=read.name,
        origin=origin,
        version=content_version(fields),
        fields=fields,
        definition=read,
        path=path,
    )


def role_file(text: str, *, name: str, parse: Parse) -> RoleFile:
    """The role that a Markdown file describes: facts in front, then its system prompt.

    Raises:
        InvalidInput: the facts are wrong, or there is no prompt.
    """
    front = _FRONT.match(text)
    facts = parse(front["facts"], named=f"the role {name}") if front else None
    body = (front["body"] if front else text).strip()
    if not body:
        raise InvalidInput(f"The role {name} has no system prompt.", cure="Write it as Markdown.")
    try:
        read = _RoleFacts.model_validate(facts or {})
    except ValidationError as error:
        wrong = problems_of(error, facts, names=_RoleFacts.model_fields)
        raise refusal(wrong, what=f"The role {name}") from error
    return RoleFile(name=name, access=read.access, model=read.model, tools=read.tools, system=body)


def measured(fields: JsonValue) -> tuple[Problem, ...]:
    """A problem when a definition is larger than a run should carry, or no Unicode text."""
    try:
        size = len(json.dumps(fields, ensure_ascii=False).encode("utf-8"))
    except UnicodeEncodeError:
        return (Problem(path="input", found="half a character (a surrogate)", allowed="texts"),)
    if size <= MAX_BYTES:
        return ()
    return (Problem(path="input", found=f"{size:,} bytes", allowed=f"at most {MAX_BYTES:,}"),)
