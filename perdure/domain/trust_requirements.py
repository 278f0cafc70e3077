"""What in a specification or definition needs more trust: programs that run, new addresses.

The worker's settings decide whether any of it is possible at all; this says who may ask for it.

Its writer needs the scope for all of that: who starts it looks at its name, not at its stages.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from pydantic import JsonValue

from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.roles.definition_library import Library
from perdure.domain.roles.parse_definition import Fields
from perdure.domain.roles.resolved_loop import MAX_NESTING

PROGRAMS = frozenset({"command", "tests", "lint"})
# A shell; and what starts loops, since their stages may have full access.
TRUSTED_TOOLS = ("shell.full", "loop_start", "loop.start")
# Words and data for the model: the installation acts on nothing in them.
_WORDS = frozenset({"goal", "about", "context", "metadata", "system", "prompt", "messages"})
_ADDRESSES = frozenset({"base_url", "url"})


def execution_needs(spec: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """The places of a specification that ask for programs, a shell or addresses, by path.

    Args:
        spec: a specification or a definition of a loop as JSON; what it leaves out asks for
            nothing, and a parameter's place for all that it could become.
    """
    # It reads JSON rather than types, so that a new kind of run is covered before anybody thinks
    # of it.
    return tuple(dict.fromkeys(_needs(dict(spec), "")))


def snapshot_needs(snapshot: LoopSnapshot) -> tuple[str, ...]:
    """The same of a resolved definition and of each loop in it, whatever its stage is called."""
    own = execution_needs(snapshot.definition.model_dump(mode="json"))
    inner = (
        f"{stage}.{place}"
        for stage, nested in snapshot.nested.items()
        for place in snapshot_needs(nested)
    )
    return (*own, *inner)


def _needs(value: JsonValue, path: str) -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                if name not in _WORDS:
                    yield from _of_field(name, inner, f"{path}.{name}" if path else name)
        case list():
            for index, inner in enumerate(value):
                yield from _needs(inner, f"{path}[{index}]")
        case _:
            return


def _of_field(name: str, value: JsonValue, path: str) -> Iterator[str]:
    match name, value:
        case (("access" | "check" | "allow" | "tools" | "loop" | "definition"), str()) if is_open(
            value
        ):
            yield path
        case "check", str() if value in PROGRAMS:
            yield path
        case "access", "full":
            yield path
        case "nested", dict():
            # Keyed by the names of stages, which may be called as words are.
            for stage, inner in value.items():
                yield from _needs(inner, f"{path}.{stage}")
        case (("allow" | "tools"), list()):
            if any(isinstance(one, str) and _is_trusted(one) for one in value):
                yield path
            yield from _needs(value, path)
        case (("command" | "argv" | "smoke_test" | "mcp"), str() | list()) if value:
            yield path
        case _, str() if value and name in _ADDRESSES:
            yield path
        case _:
            yield from _needs(value, path)


def is_open(value: str) -> bool:
    """Whether whoever starts the loop says what this is: a parameter's place."""
    return "{{" in value


def _is_trusted(pattern: str) -> bool:
    return is_open(pattern) or any(fnmatchcase(tool, pattern) for tool in TRUSTED_TOOLS)


def written_needs(fields: Fields, library: Library) -> tuple[str, ...]:
    """The places of a definition, as written, that ask for the scope `execute`.

    Args:
        fields: the definition with its placeholders.
        library: the roles, which bring an access level, and the loops that a stage can run.
    """
    return tuple(dict.fromkeys(_definition_needs(fields, library, depth=0)))


def _definition_needs(fields: Fields, library: Library, *, depth: int) -> Iterator[str]:
    yield from execution_needs(fields)
    stages = fields.get("roles")
    for index, stage in enumerate(stages if isinstance(stages, list) else ()):
        if not isinstance(stage, dict):
            continue
        path = f"roles[{index}]"
        if stage.get("loop") is not None:
            inner = _nested(stage["loop"], library)
            # Bounded, since loops may name each other in a circle, which only a start refuses.
            if inner is not None and depth < MAX_NESTING:
                places = _definition_needs(inner, library, depth=depth + 1)
                yield from (f"{path}.loop.{place}" for place in places)
        elif stage.get("access") is None and _brings_all(stage, library):
            yield f"{path}.role"


def _brings_all(stage: Fields, library: Library) -> bool:
    """Whether the role of a stage that names no access has full access, or may have it."""
    role = stage.get("role") or stage.get("name")
    if not isinstance(role, str):
        return False
    file = library.roles.get(role)
    # A parameter may name any role, also one of full access.
    return is_open(role) or (file is not None and file.access == "full")


def _nested(loop: JsonValue, library: Library) -> Fields | None:
    name = loop.get("definition") if isinstance(loop, dict) else loop
    found = library.definitions.get(name) if isinstance(name, str) else None
    return None if found is None else found.fields
