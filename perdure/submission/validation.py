"""Validates a specification, and reports all its problems at once in sentences for people."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.evaluation.rubric import Rubric, RubricProblems, no_problems
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.foundation.problems import (
    OBJECT,
    OBJECT_TYPES,
    Problem,
    format_value,
    nearest_name,
    problems_of,
)
from perdure.domain.refine.spec import RefineSpec, bound_to_parts, settings_problems
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.specs import RUN_SPEC, Spec, rubric_of
from perdure.submission.hidden_problems import beyond_kinds, misspelt_name_problems, of_sound_parts
from perdure.submission.layers import (
    FIELDS_BY_KIND,
    Fields,
    Layer,
    has,
    meant_kind,
    source_of,
    steps_of,
)
from perdure.submission.plain_values import unsound

Schema = dict[str, JsonValue]


def field_names(value: JsonValue, steps: Sequence[str | int]) -> list[str]:
    """The names of the fields that the block at `steps` may have, sorted.

    Args:
        value: the whole specification; its kinds and checks decide between alternative forms.
        steps: the path of the block, such as `("rubric", 0, "evaluator")`.
    """
    nodes = _narrowed(_alternatives(_schema()), value)
    for step in steps:
        value = _at(value, step)
        below = [inner for node in nodes for inner in _below(node, step)]
        nodes = _narrowed([alt for node in below for alt in _alternatives(node)], value)
    names = {name for node in nodes for name in _block(node, "properties")}
    return sorted(names)


@cache
def _schema() -> Schema:
    return RUN_SPEC.json_schema()


def _alternatives(node: Schema) -> list[Schema]:
    """The alternatives of a schema, with references and unions resolved."""
    target = node.get("$ref")
    if isinstance(target, str):
        found = _block(_schema(), "$defs").get(target.rsplit("/", 1)[-1])
        return _alternatives(found) if isinstance(found, dict) else []
    for word in ("oneOf", "anyOf", "allOf"):
        inner = node.get(word)
        if isinstance(inner, list):
            return [alt for item in inner if isinstance(item, dict) for alt in _alternatives(item)]
    return [node]


def _narrowed(nodes: list[Schema], value: JsonValue) -> list[Schema]:
    """The alternatives with the value's tag (`kind`, `check`, `type`); all if none has it."""
    if not isinstance(value, dict):
        return nodes
    tagged = [node for node in nodes if _is_tagged(node, value)]
    return tagged or nodes


def _is_tagged(node: Schema, value: dict[str, JsonValue]) -> bool:
    tags = {
        name: field["const"]
        for name, field in _block(node, "properties").items()
        if isinstance(field, dict) and "const" in field
    }
    return bool(tags) and all(value.get(name) == tag for name, tag in tags.items())


def _below(node: Schema, step: str | int) -> list[Schema]:
    if isinstance(step, int):
        found = node.get("items")
    else:
        found = _block(node, "properties").get(step, node.get("additionalProperties"))
    return [found] if isinstance(found, dict) else []


def _block(node: Schema, name: str) -> Schema:
    found = node.get(name)
    return found if isinstance(found, dict) else {}


def _at(value: JsonValue, step: str | int) -> JsonValue:
    match value, step:
        case dict(), str():
            return value.get(step)
        case list(), int() if step < len(value):
            return value[step]
        case _:
            return None


WORDS_CHARACTERS = 60
_NO_ROLE = "no step of this kind of run calls this role"
_NO_WORKERS = "no step of this kind of run starts workers"
IDLE: Mapping[str, str] = {
    "budget.workers": _NO_WORKERS,
    "budget.depth": _NO_WORKERS,
    "models.manager": _NO_ROLE,
    "models.worker": _NO_ROLE,
    "models.critic": _NO_ROLE,
    "models.repair": _NO_ROLE,
}

_NO_HISTORY = "only an agent run begins with a given conversation"
_GIVEN_HISTORY: Mapping[str, str] = {
    "agent.messages": _NO_HISTORY,
    "agent.transcript": _NO_HISTORY,
}

AGENT_IDLE: Mapping[str, str] = {"models.evaluator": _NO_ROLE, "models.planner": _NO_ROLE}
WITHOUT_RECALL: Mapping[str, str] = {
    "skills": "an agent run is given skills with `recall: true` alone"
}
ROLES_IDLE: Mapping[str, str] = {
    **_GIVEN_HISTORY,
    "agent.system": "each stage has the system prompt of its role",
    "recall": "stages have the memory tools instead, each by its access",
    "skills": "stages have the skill tools instead, each by its access",
    "models.planner": "the stages of a definition have models of their own, or the executor's",
}
DELEGATION_IDLE: Mapping[str, str] = {
    **_GIVEN_HISTORY,
    "agent.system": "manager and workers have system prompts of their own",
    "agent.profile": "workers have the profile `delegate`",
    "models.planner": "the manager plans itself",
}


def idle_notes(given: Fields) -> tuple[str, ...]:
    """One line for each setting that is given, is not off, and has no effect.

    Args:
        given: the fields of files and flags, without built-in defaults.
    """
    match given.get("kind", "agent"):
        case "delegation":
            idle = dict(DELEGATION_IDLE)
        case "roles":
            # A stage may be a delegation, which starts workers and calls all these roles.
            idle = dict(ROLES_IDLE)
        case "agent":
            unread = {} if given.get("recall") is True else WITHOUT_RECALL
            idle = {**IDLE, **AGENT_IDLE, **unread}
        case _:
            idle = {**IDLE, **_GIVEN_HISTORY}
    return tuple(
        f"{path}: {_words(value)} has no effect in this version: {why}."
        for path, why in idle.items()
        if (value := _value_at(given, path)) and value != "off"
    )


def _value_at(fields: Fields, path: str) -> JsonValue:
    steps = steps_of(path)
    if not has(fields, steps):
        return None
    value: JsonValue = fields
    for step in steps:
        value = value[str(step)] if isinstance(value, dict) else None
    return value


def _words(value: JsonValue) -> str:
    return clipped_line(value, WORDS_CHARACTERS) if isinstance(value, str) else format_value(value)


def validated(
    whole: Fields,
    layers: Sequence[Layer] = (),
    *,
    problems: Iterable[Problem] = (),
    rubric_problems: RubricProblems = no_problems,
) -> Spec:
    """The specification that the fields make.

    Args:
        whole: all layers as one.
        layers: where the fields come from; messages name files of defaults.
        problems: problems that were found before, which are reported together with the rest.
        rubric_problems: finds patterns and schemas of a rubric that cannot be used.

    Raises:
        InvalidInput: something is wrong; the message lists all problems.
    """
    spec, wrong = _examined(whole)
    rubric = rubric_of(spec)
    if rubric is not None:
        wrong += rubric_problems(rubric)
    kind = whole.get("kind")
    if spec is None:
        # What is wrong in one place must not hide what is wrong in another.
        meant = meant_kind(kind) if isinstance(kind, str) else None
        likely = {**whole, "kind": meant} if meant in FIELDS_BY_KIND else None
        if likely is None:
            wrong += beyond_kinds(whole, lambda fields: _examined(fields)[1])
        elif meant != kind:
            wrong += _examined(likely)[1]
        wrong += misspelt_name_problems(likely or whole, wrong, lambda fields: _examined(fields)[1])
        wrong += of_sound_parts(likely or whole, rubric_problems)
    found = [*problems, *(_named_kinds(problem) for problem in wrong)]
    told = {problem.path for problem in found}
    found += [problem for problem in unsound(whole) if problem.path not in told]
    if spec is None or found:
        raise refusal([_with_source(problem, layers) for problem in found])
    return spec


def _named_kinds(problem: Problem) -> Problem:
    """A missing kind with those that there are, for who writes a first task."""
    if (problem.path, problem.found) != ("kind", "nothing"):
        return problem
    return problem.model_copy(update={"allowed": f"one of {', '.join(sorted(FIELDS_BY_KIND))}"})


def refusal(problems: Sequence[Problem]) -> InvalidInput:
    """One error that lists all problems, sorted by path."""
    listed = sorted({str(problem): problem for problem in problems}.items(), key=lambda it: it[0])
    lines = "\n".join(f"  {text}" for text, _ in listed)
    count = "1 problem" if len(listed) == 1 else f"{len(listed)} problems"
    return InvalidInput(
        f"The specification has {count}:\n{lines}\n",
        cure="Nothing was started; correct them all.",
        problems=((problem.path, problem.words) for _, problem in listed),
    )


def _examined(whole: Fields) -> tuple[Spec | None, list[Problem]]:
    """The specification if the fields are valid, and its problems."""
    try:
        spec = _parsed(whole)
    except ValidationError as error:
        return None, _translated(error, whole)
    match spec:
        case RefineSpec():
            return spec, [*settings_problems(spec.refine, spec.rubric)]
        case DelegationSpec(rubric=Rubric() as rubric):
            return spec, [*bound_to_parts(rubric)]
        case _:
            return spec, []


def _parsed(whole: Fields) -> Spec:
    # A known kind is validated by its own model. The union would begin every path with the kind,
    # and `agent` and `refine` are also names of blocks.
    match whole.get("kind"):
        case "agent":
            return AgentSpec.model_validate(whole)
        case "refine":
            return RefineSpec.model_validate(whole)
        case "roles":
            return RolesSpec.model_validate(whole)
        case "delegation":
            return DelegationSpec.model_validate(whole)
        case _:
            return RUN_SPEC.validate_python(whole)


def _translated(error: ValidationError, whole: Fields) -> list[Problem]:
    # `problems_of` keeps the order of pydantic's list, so each problem can be improved here.
    details = [
        detail
        for detail in error.errors(include_url=False)
        # Left out there too: it only repeats the problem of the field that the default needs.
        if detail["type"] != "default_factory_not_called"
    ]
    plain = problems_of(error, whole)
    merged: dict[str, Problem] = {}
    for detail, problem in zip(details, plain, strict=True):
        better = _in_words(detail, problem, whole)
        known = merged.get(better.path)
        if known is not None and known.allowed != better.allowed:
            # Each alternative of a union reports its own problem.
            better = known.model_copy(update={"allowed": f"{known.allowed}, or {better.allowed}"})
        merged[better.path] = better
    return list(merged.values())


def _in_words(detail: ErrorDetails, problem: Problem, whole: JsonValue) -> Problem:
    kind = detail["type"]
    if kind == "extra_forbidden":
        steps = steps_of(problem.path)
        names = field_names(whole, steps[:-1])
        return problem.model_copy(
            update={
                "allowed": "one of " + ", ".join(names) if names else problem.allowed,
                "nearest": _meant(steps, names, whole) if steps else None,
            }
        )
    if kind in OBJECT_TYPES and (names := field_names(whole, steps_of(problem.path))):
        return problem.model_copy(update={"allowed": f"{OBJECT}: {', '.join(names)}"})
    return problem


def _meant(steps: Sequence[str | int], names: Sequence[str], whole: JsonValue) -> str | None:
    """Where a field that is unknown at its place most probably belongs.

    Who knows a field but not its block writes it beside `goal`, as other tools have it. Where that
    name is a field elsewhere, the place is wrong and not its spelling.
    """
    name = str(steps[-1])
    kind = str(whole.get("kind")) if isinstance(whole, dict) else ""
    blocks = [block for block in field_names(whole, ()) if block != steps[0]]
    places = [block for block in blocks if name in field_names(whole, (block,))]
    own = [block for block in places if block == kind]
    if found := [f"{block}.{name}" for block in own or places]:
        return " or ".join(found)
    if len(steps) > 1 and name in field_names(whole, ()):
        return f"{name} at the top level"
    return nearest_name(name, names)


def _with_source(problem: Problem, layers: Sequence[Layer]) -> Problem:
    source = source_of([layer for layer in layers if layer.defaults], problem.path)
    higher = source_of([layer for layer in layers if not layer.defaults], problem.path)
    if source is None or higher is not None:
        return problem
    return problem.model_copy(update={"path": f"{problem.path} (in {source})"})
