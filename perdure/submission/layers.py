"""Merges the layers of a specification, and finds the layer that a field comes from."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.foundation.problems import Problem, nearest_name
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.roles.spec import RolesSpec
from perdure.strict_yaml import parse
from perdure.submission.types import Flags

DEFAULTS_FILE = "perdure.yaml"
Fields = dict[str, JsonValue]
Step = str | int

FIELDS_BY_KIND: dict[str, frozenset[str]] = {
    "agent": frozenset(AgentSpec.model_fields),
    "refine": frozenset(RefineSpec.model_fields),
    "roles": frozenset(RolesSpec.model_fields),
    "delegation": frozenset(DelegationSpec.model_fields),
}
ALL_FIELDS = frozenset[str]().union(*FIELDS_BY_KIND.values())
# Blocks with alternative forms are replaced, since fields of two forms make no valid block.
_REPLACED = frozenset({"termination", "unknown_price"})
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One source of fields; relative paths in it start at `folder`."""

    name: str
    fields: Fields
    folder: Path | None = None
    defaults: bool = False


def merged(layers: Sequence[Layer], kind: str | None) -> Fields:
    """All layers as one: blocks are merged field by field, anything else is replaced.

    Defaults may have fields of all kinds; those of other kinds are left out.
    """
    whole: Fields = {}
    for layer in layers:
        fields = layer.fields
        if layer.defaults and kind in FIELDS_BY_KIND:
            # A name that no kind has stays, so that it is refused with its place.
            foreign = ALL_FIELDS - FIELDS_BY_KIND[kind]
            fields = {name: value for name, value in fields.items() if name not in foreign}
        whole = over(whole, fields)
    return whole


def kind_of(layers: Sequence[Layer]) -> str | None:
    """The kind that the highest layer names."""
    for layer in reversed(layers):
        kind = layer.fields.get("kind")
        if isinstance(kind, str):
            return kind
    return None


def meant_kind(kind: str | None) -> str | None:
    """The kind that a typo most probably means, so that the other fields can be checked too."""
    if kind is None or kind in FIELDS_BY_KIND:
        return kind
    return nearest_name(kind, FIELDS_BY_KIND) or kind


def flag_fields(flags: Flags, kind: str | None) -> tuple[Fields, list[Problem]]:
    """The flags as fields, and problems of `--set`."""
    fields: Fields = dict(flags.fields)
    if flags.kind is not None:
        fields["kind"] = flags.kind
    if flags.budget:
        fields = over(fields, {"budget": dict(flags.budget)})
    if flags.model is not None:
        fields = over(fields, {"models": {"executor": flags.model}})
    if flags.iterate is not None:
        # The settings of a kind are in a block of the same name.
        block = kind if kind in FIELDS_BY_KIND else "refine"
        fields = over(fields, {block or "refine": {"max_iterations": flags.iterate}})
    if flags.quality is not None:
        fields = over(fields, {"refine": {"quality_threshold": flags.quality}})
    problems: list[Problem] = []
    for text in flags.sets:
        problem = _set(fields, text)
        if problem is not None:
            problems.append(problem)
    return fields, problems


def with_lists(whole: Fields, flags: Flags) -> tuple[Fields, list[Problem]]:
    """Apply each `--set` into a list; in `flag_fields` merging would replace the whole list.

    Returns:
        The fields, and a problem for each `--set` whose place is not there.
    """
    problems: list[Problem] = []
    for text in flags.sets:
        path, found, value = text.partition("=")
        steps = steps_of(path.strip())
        if not found or _is_no_field(steps) or not any(isinstance(step, int) for step in steps):
            continue  # set or refused by `_set`
        try:
            changed = _replaced(whole, steps, parse(value, named=f"--set {path}"))
        except LookupError:
            allowed = "an item of a list, or the next one after it"
            problem = Problem(path=path.strip(), found="nothing at this place", allowed=allowed)
            problems.append(problem)
        else:
            whole = changed if isinstance(changed, dict) else whole
    return whole, problems


def steps_of(path: str) -> tuple[Step, ...]:
    """A path such as `rubric[0].weight` as steps: `("rubric", 0, "weight")`."""
    return tuple(int(number) if number else name for number, name in _STEP.findall(path))


def source_of(layers: Sequence[Layer], path: str) -> str | None:
    """The highest layer that has a value at a path."""
    steps = steps_of(path)
    for layer in reversed(layers):
        if has(layer.fields, steps):
            return layer.name
    return None


def has(value: JsonValue, steps: Sequence[Step]) -> bool:
    return any(True for _ in values_at(value, steps))


def values_at(value: JsonValue, steps: Sequence[Step]) -> Iterator[JsonValue]:
    """The value at these steps, which may be null; nothing where the steps lead nowhere."""
    for step in steps:
        match value, step:
            case dict(), str() if step in value:
                value = value[step]
            case list(), int() if step < len(value):
                value = value[step]
            case _:
                return
    yield value


def over(low: Fields, high: Fields) -> Fields:
    """Two layers as one: blocks are merged field by field, anything else of `high` replaces."""
    whole = dict(low)
    for name, value in high.items():
        below = whole.get(name)
        if isinstance(below, dict) and isinstance(value, dict) and name not in _REPLACED:
            # An input is replaced as a whole, even if it is a block.
            value = {**below, **value} if name == "context" else over(below, value)
        whole[name] = value
    return whole


def _set(fields: Fields, text: str) -> Problem | None:
    path, found, value = text.partition("=")
    steps = steps_of(path.strip())
    if not found or _is_no_field(steps):
        return Problem(path="--set", found=text, allowed="path=value, as budget.tokens=50000")
    if any(isinstance(step, int) for step in steps):
        return None  # into a list of the file: done by `with_lists`
    at = fields
    for step in steps[:-1]:
        below = at.setdefault(str(step), {})
        if not isinstance(below, dict):
            return Problem(
                path=path.strip(), found=text, allowed=f"a block of fields at {step}, not a value"
            )
        at = below
    at[str(steps[-1])] = parse(value, named=f"--set {path}")
    return None


def _is_no_field(steps: Sequence[Step]) -> bool:
    return not steps or isinstance(steps[0], int)


def _replaced(value: JsonValue, steps: Sequence[Step], new: JsonValue) -> JsonValue:
    """The value with another one at these steps; raises `LookupError` where they lead nowhere."""
    if not steps:
        return new
    step, rest = steps[0], steps[1:]
    match value, step:
        case dict(), str():
            return {**value, step: _replaced(value.get(step), rest, new)}
        case list(), int() if step < len(value):
            return [*value[:step], _replaced(value[step], rest, new), *value[step + 1 :]]
        case list(), int() if step == len(value):
            return [*value, _replaced(None, rest, new)]
        case None, 0:
            # Where the field is no list, the validation refuses this one.
            return [_replaced(None, rest, new)]
        case None, str():
            return {step: _replaced(None, rest, new)}
        case _:
            raise LookupError(step)
