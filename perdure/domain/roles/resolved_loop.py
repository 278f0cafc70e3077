"""Makes the snapshot that a run of roles works with: parameters put in, role files read.

Everything that can be wrong is told at once, before anything is started. An edit of a definition
never changes a run that is under way, since the run has the snapshot alone.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from perdure.domain.foundation.plain_text import is_blank
from perdure.domain.foundation.problems import Problem, format_value, nearest_name
from perdure.domain.roles.definition import (
    DEFAULT_ACCESS,
    LoopDefinition,
    LoopSnapshot,
    NestedLoop,
    Parameter,
    RoleDefinition,
    text_of,
)
from perdure.domain.roles.definition_library import Library, StoredDefinition
from perdure.domain.roles.parse_definition import (
    Fields,
    filled,
    filled_text,
    read_filled,
    unknown_placeholders,
)

MAX_NESTING = 4
# Nested loops multiply: four files of 32 stages each would make a million.
MOST_STAGES_IN_ALL = 200
MAX_VALUE_CHARACTERS = 20_000
GENERIC_SYSTEM = "You are the {role} of a team. Do what your stage asks for, and say what you did."

Given = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A snapshot and the goal with its placeholders replaced; or problems, never both."""

    snapshot: LoopSnapshot | None = None
    goal: str = ""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """One loop to be resolved: its name, its parameters, and where they were given."""

    name: str
    parameters: Given
    path: str
    goal: str | None = None
    above: tuple[str, ...] = field(default=())


@dataclass(slots=True)
class _Tree:
    """One snapshot in the making: what the installation offers, and the stages read so far."""

    provided: frozenset[str]
    stages: int = 0

    @property
    def is_full(self) -> bool:
        return self.stages > MOST_STAGES_IN_ALL


def resolve_loop(
    library: Library, name: str, *, goal: str, parameters: Given, provided: Collection[str]
) -> Resolved:
    """The snapshot of a definition for one run.

    Args:
        library: what can be named.
        name: the definition.
        goal: the run's; placeholders in it are replaced too.
        parameters: what whoever starts the run gives.
        provided: what this installation offers to `requires`.

    Returns:
        The snapshot and the goal, or every problem, with paths inside the run's specification.
    """
    asked = _Asked(name=name, parameters=parameters, path="roles", goal=goal)
    return _resolved(library, asked, _Tree(frozenset(provided)))


def _resolved(library: Library, asked: _Asked, tree: _Tree) -> Resolved:
    stored = library.definitions.get(asked.name)
    if stored is None:
        return Resolved(problems=(_unknown(library, asked),))
    values, wrong = _values(stored.definition, asked)
    wrong += _unmet(stored.definition, tree.provided)
    names = tuple(parameter.name for parameter in stored.definition.parameters)
    if asked.goal is not None:
        wrong += unknown_placeholders(asked.goal, names, root="goal")
    if wrong:
        return Resolved(problems=tuple(wrong))
    read = read_filled(_filled(stored.fields, values))
    if not isinstance(read, LoopDefinition):
        return Resolved(
            problems=tuple(
                problem.model_copy(update={"path": f"{stored.name}.{problem.path}"})
                for problem in read
            )
        )
    return _completed(library, read, asked=asked, values=values, stored=stored, tree=tree)


def _completed(
    library: Library,
    definition: LoopDefinition,
    *,
    asked: _Asked,
    values: Mapping[str, str],
    stored: StoredDefinition,
    tree: _Tree,
) -> Resolved:
    """The snapshot with the roles' files, and with the loops that stages run."""
    tree.stages += len(definition.roles)
    if tree.is_full:
        return Resolved(problems=(_too_many(asked),))
    nested, wrong = _nested(library, definition, asked=asked, tree=tree)
    if wrong:
        return Resolved(problems=tuple(wrong))
    roles = tuple(_with_file(role, library) for role in definition.roles)
    snapshot = LoopSnapshot(
        definition=definition.model_copy(update={"roles": roles}),
        version=stored.version,
        parameters=dict(values),
        nested=nested,
    )
    return Resolved(snapshot=snapshot, goal=filled_text(asked.goal or "", values))


def _nested(
    library: Library, definition: LoopDefinition, *, asked: _Asked, tree: _Tree
) -> tuple[dict[str, LoopSnapshot], list[Problem]]:
    found: dict[str, LoopSnapshot] = {}
    wrong: list[Problem] = []
    chain = (*asked.above, asked.name)
    for role in definition.roles:
        if role.loop is None:
            continue
        wrong += _blank_prompt_problems(definition, role)
        # What is too much was told with the loop that went too far.
        if role.loop.definition is None or tree.is_full:
            continue
        path = f"{definition.name}.roles.{role.name}.loop"
        problem = _endless(role.loop, chain, path)
        if problem is not None:
            wrong.append(problem)
            continue
        inner = _Asked(
            name=role.loop.definition, parameters=role.loop.parameters, path=path, above=chain
        )
        resolved = _resolved(library, inner, tree)
        wrong += resolved.problems
        if resolved.snapshot is not None:
            found[role.name] = resolved.snapshot
    return found, wrong


def _too_many(asked: _Asked) -> Problem:
    way = " > ".join((*asked.above, asked.name))
    allowed = f"at most {MOST_STAGES_IN_ALL} stages in a loop and in all loops that it runs"
    return Problem(path=asked.path, found=f"more stages, with {way}", allowed=allowed)


def _blank_prompt_problems(definition: LoopDefinition, role: RoleDefinition) -> list[Problem]:
    """A stage whose loop could not start: its prompt is the goal, and people see nothing of it."""
    # Here, where parameters are put in; an empty one can leave such a prompt.
    if not is_blank(role.prompt):
        return []
    path = f"{definition.name}.roles.{role.name}.prompt"
    return [Problem(path=path, found=format_value(role.prompt), allowed="a text that is not empty")]


def _endless(loop: NestedLoop, chain: tuple[str, ...], path: str) -> Problem | None:
    way = " > ".join((*chain, loop.definition or ""))
    if loop.definition in chain:
        return Problem(path=path, found=way, allowed="a loop that does not run itself again")
    if len(chain) >= MAX_NESTING:
        return Problem(path=path, found=way, allowed=f"at most {MAX_NESTING} loops in one another")
    return None


def _with_file(role: RoleDefinition, library: Library) -> RoleDefinition:
    """The role with what its definition leaves open taken from its file."""
    if role.loop is not None:
        return role
    file = library.roles.get(role.role)
    if file is None:
        system = role.system or GENERIC_SYSTEM.format(role=role.role)
        return role.model_copy(update={"system": system, "access": role.access or DEFAULT_ACCESS})
    return role.model_copy(
        update={
            "system": role.system or file.system,
            "access": role.access or file.access,
            "model": file.model if role.model is None else role.model,
            # Not `or`: an empty list is a stage without tools.
            "tools": file.tools if role.tools is None else role.tools,
        }
    )


def _filled(fields: Fields, values: Mapping[str, str]) -> Fields:
    """The fields with values in place; declarations are no templates."""
    # Before validation, so that a limit can be a parameter too.
    return {
        name: value if name == "parameters" else filled(value, values)
        for name, value in fields.items()
    }


def _values(definition: LoopDefinition, asked: _Asked) -> tuple[dict[str, str], list[Problem]]:
    """What stands for each placeholder, and what is wrong with what was given."""
    declared = {parameter.name: parameter for parameter in definition.parameters}
    # A null counts as not given: so YAML writes a field that is left empty.
    given = {name: value for name, value in asked.parameters.items() if value is not None}
    root = f"{asked.path}.parameters"
    wrong = [
        _undeclared(name, declared, path=f"{root}.{name}", loop=definition.name)
        for name in asked.parameters
        if name not in declared
    ]
    missing = [name for name, one in declared.items() if one.required and name not in given]
    if missing:
        wrong.append(
            Problem(
                path=root,
                found=f"no value for {', '.join(missing)}",
                allowed="a value for each: " + "; ".join(_told(declared[name]) for name in missing),
            )
        )
    values = {
        name: text_of(given.get(name, one.default))
        for name, one in declared.items()
        if name in given or one.default is not None
    }
    wrong += [
        Problem(
            path=f"{root}.{name}",
            found=format_value(given[name]),
            allowed=f"one of {', '.join(one.chosen_from)}",
            nearest=nearest_name(text_of(given[name]), one.chosen_from),
        )
        for name, one in declared.items()
        if name in given and not one.allows(given[name])
    ]
    wrong += [
        Problem(
            path=f"{root}.{name}",
            found=f"{len(value):,} characters",
            allowed=f"at most {MAX_VALUE_CHARACTERS:,}",
        )
        for name, value in values.items()
        if len(value) > MAX_VALUE_CHARACTERS
    ]
    return values, wrong


def _undeclared(name: str, declared: Mapping[str, Parameter], *, path: str, loop: str) -> Problem:
    listed = f"one of {', '.join(declared)}" if declared else f"none; {loop} has no parameters"
    near = nearest_name(name, declared)
    return Problem(path=path, found=f"the parameter {name}", allowed=listed, nearest=near)


def _told(parameter: Parameter) -> str:
    words = parameter.description.strip()
    return f"{parameter.name} ({words})" if words else parameter.name


def _unmet(definition: LoopDefinition, provided: frozenset[str]) -> list[Problem]:
    return [
        Problem(
            path=f"{definition.name}.requires",
            found=capability,
            allowed="what this installation offers: " + ", ".join(sorted(provided)),
        )
        for capability in definition.requires
        if capability not in provided
    ]


def _unknown(library: Library, asked: _Asked) -> Problem:
    names = sorted(library.definitions)
    return Problem(
        path=f"{asked.path}.definition",
        found=format_value(asked.name),
        allowed="one of " + ", ".join(names),
        nearest=nearest_name(asked.name, names),
    )
