"""Reads loop definitions and their placeholders, with everything that is wrong at once."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue, ValidationError

from perdure.domain.evaluation.termination_conditions import FIELDS as CONDITION_FIELDS
from perdure.domain.foundation.problems import OBJECT, Problem, nearest_name, path_of, problems_of
from perdure.domain.roles.definition import (
    LoopDefinition,
    NestedLoop,
    Parameter,
    RoleDefinition,
    text_of,
)

# `\{{name}}` stays as it is written, without the backslash. The blanks around a name are left to
# `_name`: three repeats side by side would take minutes for a long row of blanks without an end.
_PLACEHOLDER = re.compile(r"(\\?)\{\{([^{}\n]*)\}\}")

Step = int | str
Names = Sequence[str]


def filled(value: JsonValue, values: Mapping[str, str]) -> JsonValue:
    """The value with every placeholder in its texts replaced, in one pass.

    Placeholders without a value stay; `unknown_placeholders` finds them first.
    """
    match value:
        case str():
            return filled_text(value, values)
        case list():
            return [filled(item, values) for item in value]
        case dict():
            return {name: filled(item, values) for name, item in value.items()}
        case _:
            return value


def filled_text(text: str, values: Mapping[str, str]) -> str:
    """One text with its placeholders replaced."""
    return _PLACEHOLDER.sub(lambda found: _replacement(found, values), text)


def placeholder_alone(text: str) -> str | None:
    """The name of the placeholder that a text consists of, or None."""
    found = _PLACEHOLDER.fullmatch(text.strip())
    return _name(found) if found and not found[1] else None


def unknown_placeholders(value: JsonValue, known: Names, *, root: str = "") -> tuple[Problem, ...]:
    """One problem for each placeholder that stands for no parameter, with its path."""
    allowed = f"one of {', '.join(known)}" if known else "no placeholder; no parameter is declared"
    return tuple(
        Problem(
            path=path_of(root, steps) or "input",
            found=f"the placeholder {{{{{name}}}}}",
            allowed=allowed,
            nearest=nearest_name(name, known),
        )
        for steps, text in _texts(value, ())
        for name in dict.fromkeys(_names(text))
        if name not in known
    )


def _names(text: str) -> list[str]:
    return [_name(found) for found in _PLACEHOLDER.finditer(text) if not found[1]]


def _name(found: re.Match[str]) -> str:
    return found[2].strip(" \t")


def _texts(value: JsonValue, steps: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], str]]:
    match value:
        case str():
            yield steps, value
        case list():
            for index, item in enumerate(value):
                yield from _texts(item, (*steps, index))
        case dict():
            for name, item in value.items():
                yield from _texts(item, (*steps, name))
        case _:
            return


def _replacement(found: re.Match[str], values: Mapping[str, str]) -> str:
    if found[1]:
        return found[0][1:]
    return values.get(_name(found), found[0])


_NONE_LEFT = "at least one"

Fields = dict[str, JsonValue]
SERVER_OWNED = ("version", "etag", "source", "path", "created_at", "updated_at", "snapshot")
"""What stores add to a definition; nobody may send it."""


def content_version(fields: Fields) -> str:
    """The version of a definition: the hash of its content, whatever its form and order."""
    text = json.dumps(fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    # A text may hold half of a character, which plain UTF-8 refuses.
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def read_definition(fields: JsonValue) -> LoopDefinition | tuple[Problem, ...]:
    """The definition as its author wrote it, or every problem with it, each with its path.

    Where a whole value is a placeholder, its parameter's default or first choice stands in: limits
    can be parameters too.
    """
    if not isinstance(fields, dict):
        return (Problem(path="input", found=_kind(fields), allowed="a block of fields"),)
    parameters, wrong = _parameters(fields)
    names = tuple(parameter.name for parameter in parameters)
    body: Fields = {name: value for name, value in fields.items() if name != "parameters"}
    # A parameter that cannot be read would make each of its placeholders unknown.
    found = [] if wrong else [*unknown_placeholders(body, names)]
    examples = {one.name: text for one in parameters for text in _examples(one)[:1]}
    read = read_filled({**fields, **_standing_in(body, examples)})
    if isinstance(read, LoopDefinition):
        return _once(found) or read
    return _once([*read, *found])


def read_filled(fields: Fields) -> LoopDefinition | tuple[Problem, ...]:
    """A definition whose parameters are put in: braces in its texts are data by now."""
    try:
        definition = LoopDefinition.model_validate(fields)
    except ValidationError as error:
        return _once([*_translated(error, fields)])
    # Not in the model: runs with such a definition in their snapshot go on.
    return _verdict_problems(definition) or definition


def _verdict_problems(definition: LoopDefinition) -> tuple[Problem, ...]:
    """A verdict that is asked of a stage that runs a loop: what it hands back is work."""
    gate = definition.review_stage
    if gate.loop is None or not definition.criteria:
        return ()
    found = f"evaluation_bound, with the loop {gate.name} as the stage that reviews"
    allowed = "a reviewer as the last stage or with `gate: true`, or a condition such as goal_bound"
    return (Problem(path="termination_condition", found=found, allowed=allowed),)


def owned_problems(fields: JsonValue) -> tuple[Problem, ...]:
    """One problem for each field that only the store may set."""
    given = fields if isinstance(fields, dict) else {}
    return tuple(
        Problem(path=name, found=f"the field {name}", allowed="nothing; the server sets it")
        for name in SERVER_OWNED
        if name in given
    )


def _parameters(fields: Fields) -> tuple[tuple[Parameter, ...], list[Problem]]:
    """The parameters that can be read; what is wrong with others is found with the rest."""
    declared = fields.get("parameters")
    read: list[Parameter] = []
    wrong: list[Problem] = []
    for item in declared if isinstance(declared, list) else ():
        try:
            read.append(Parameter.model_validate(item))
        except ValidationError as error:
            wrong += problems_of(error, item)
    return tuple(read), wrong


def _examples(parameter: Parameter) -> tuple[str, ...]:
    """Values that a parameter is known to take, the most likely one first."""
    default = () if parameter.default is None else (text_of(parameter.default),)
    return (*default, *parameter.chosen_from)


def _standing_in(value: Fields, examples: Mapping[str, str]) -> Fields:
    return {name: _stood_in(item, examples) for name, item in value.items()}


def _stood_in(value: JsonValue, examples: Mapping[str, str]) -> JsonValue:
    match value:
        case str():
            name = placeholder_alone(value)
            return examples.get(name, value) if name is not None else value
        case list():
            return [_stood_in(item, examples) for item in value]
        case dict():
            return _standing_in(value, examples)
        case _:
            return value


def _translated(error: ValidationError, fields: Fields) -> tuple[Problem, ...]:
    has_roles = bool(fields.get("roles"))
    return tuple(
        _with_names(_in_words(problem))
        for problem in problems_of(error, fields)
        # A list whose items are all wrong is not empty.
        if not (has_roles and problem.allowed == _NONE_LEFT)
    )


def _in_words(problem: Problem) -> Problem:
    """An object is a block in a file."""
    allowed = "a block of fields" if problem.allowed == OBJECT else problem.allowed
    return problem.model_copy(update={"allowed": allowed})


def _with_names(problem: Problem) -> Problem:
    """The problem of an unknown field, with the fields that its block has."""
    if not problem.found.startswith("the field "):
        return problem
    inside = problem.path.rpartition(".")[0]
    names = _names_at(inside)
    near = nearest_name(problem.path.rpartition(".")[2], names)
    allowed = "one of " + ", ".join(names)
    return problem.model_copy(update={"allowed": allowed, "nearest": near})


def _names_at(inside: str) -> list[str]:
    if inside.startswith("termination_condition"):
        return sorted({*CONDITION_FIELDS, "value"})
    if inside.startswith("parameters["):
        return sorted(Parameter.model_fields)
    if inside.startswith("roles["):
        return sorted((NestedLoop if inside.endswith(".loop") else RoleDefinition).model_fields)
    return sorted(LoopDefinition.model_fields)


def _once(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple({str(problem): problem for problem in problems}.values())


def _kind(value: JsonValue) -> str:
    match value:
        case None:
            return "nothing"
        case list():
            return "a list"
        case _:
            return "one value"
