"""What a definition could become at most, whoever starts it with whatever parameters.

Its writer needs the scope for all of that: who starts it looks at its name, not at its stages.
"""

from collections.abc import Iterator

from pydantic import JsonValue

from perdure.domain.roles.definition_library import Library
from perdure.domain.roles.parse_definition import Fields
from perdure.domain.roles.resolved_loop import MAX_NESTING
from perdure.domain.trust_requirements import execution_needs, is_open


def written_needs(fields: Fields, library: Library) -> tuple[str, ...]:
    """The places of a definition, as written, that ask for the scope `execute`.

    Args:
        fields: the definition with its placeholders.
        library: the roles, which bring an access level, and the loops that a stage can run.
    """
    return tuple(dict.fromkeys(_needs(fields, library, depth=0)))


def _needs(fields: Fields, library: Library, *, depth: int) -> Iterator[str]:
    yield from execution_needs(fields)
    stages = fields.get("roles")
    for index, stage in enumerate(stages if isinstance(stages, list) else ()):
        if not isinstance(stage, dict):
            continue
        path = f"roles[{index}]"
        if stage.get("loop") is not None:
            inner = _nested(stage["loop"], library)
            if inner is not None and depth < MAX_NESTING:
                places = _needs(inner, library, depth=depth + 1)
                yield from (f"{path}.loop.{place}" for place in places)
        elif stage.get("access") is None and _brings_all(stage, library):
            yield f"{path}.role"


def _brings_all(stage: Fields, library: Library) -> bool:
    """Whether the role of a stage that names no access has full access, or may have it."""
    role = stage.get("role") or stage.get("name")
    if not isinstance(role, str):
        return False
    file = library.roles.get(role)
    return is_open(role) or (file is not None and file.access == "full")


def _nested(loop: JsonValue, library: Library) -> Fields | None:
    name = loop.get("definition") if isinstance(loop, dict) else loop
    found = library.definitions.get(name) if isinstance(name, str) else None
    return None if found is None else found.fields
