"""Hooks: functions of a user's own that a run calls between its iterations and at its end.

`adapt` computes what changes before the next iteration. `on_iteration` and `on_end` tell the
outside; whatever becomes of them, the run goes on.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from pydantic import Field, JsonValue, field_validator

from perdure.domain.evaluation.checks import PLUGIN_NAME
from perdure.domain.foundation.base import ActivityMessage, FrozenModel
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.problems import Problem, format_value, nearest_name
from perdure.domain.turns.records import IterationRecord

HookKind = Literal["adapt", "on_iteration", "on_end"]
Adapted = dict[str, JsonValue]

HOOK_TIMEOUT_S = 60.0
MOST_HOOKS = 8
# Every prompt and every record holds these values.
MOST_VALUES = 20
NAME_CHARACTERS = 60
VALUES_CHARACTERS = 2_000
FAILURES_KEPT = 10
WORDS = 400


class HookFailed(PerdureError):
    """A hook raised an error; it is called again, up to the attempts of a step of its kind."""

    code = "hook_failed"


class HookUse(FrozenModel):
    """A hook as a task names it; a bare text is its name.

    `parameters` go to the function by name; `timeout_s` is the limit of one attempt in seconds.
    """

    name: str = Field(pattern=PLUGIN_NAME)
    parameters: dict[str, JsonValue] = {}
    timeout_s: float = Field(default=HOOK_TIMEOUT_S, gt=0, le=3_600)


class AdaptUse(HookUse):
    """What computes the adaptation, and the one that is in force before it was first called.

    With `on_error: fail` a run whose adaptation cannot be computed ends; else it goes on with the
    one in force.
    """

    start: Adapted = {}
    on_error: Literal["continue", "fail"] = "continue"

    @field_validator("start")
    @classmethod
    def _fits(cls, value: Adapted) -> Adapted:
        if why := adaptation_problem(value):
            raise ValueError(why)
        return value


class Hooks(FrozenModel):
    """The hooks of a task; only refine runs adapt."""

    adapt: AdaptUse | None = None
    on_iteration: tuple[HookUse, ...] = Field(default=(), max_length=MOST_HOOKS)
    on_end: tuple[HookUse, ...] = Field(default=(), max_length=MOST_HOOKS)

    @field_validator("adapt", mode="before")
    @classmethod
    def _bare(cls, value: object) -> object:
        return _named(value)

    @field_validator("on_iteration", "on_end", mode="before")
    @classmethod
    def _bare_names(cls, value: object) -> object:
        given = [value] if isinstance(value, str) else value
        return [_named(one) for one in given] if isinstance(given, list | tuple) else given

    @property
    def wanted(self) -> dict[str, "WantedHook"]:
        """Every hook by its place in the task."""
        return dict(self._places())

    def _places(self) -> Iterator[tuple[str, "WantedHook"]]:
        if self.adapt is not None:
            yield "hooks.adapt", wanted("adapt", self.adapt)
        for index, use in enumerate(self.on_iteration):
            yield f"hooks.on_iteration[{index}]", wanted("on_iteration", use)
        for index, use in enumerate(self.on_end):
            yield f"hooks.on_end[{index}]", wanted("on_end", use)


class WantedHook(ActivityMessage):
    """A hook that a run will call: where it is called, its name, the parameters of the task."""

    kind: HookKind
    name: str
    parameters: dict[str, JsonValue] = {}


class HookRequest(ActivityMessage):
    """One call of a hook.

    `loop` is the kind of the run. `record` is the iteration that ended, `result` the result as JSON
    of a run that ends, `adaptation` what is in force.
    """

    hook: WantedHook
    run: str
    loop: str
    frame: str | None = None
    goal: str = ""
    key: str
    record: IterationRecord | None = None
    adaptation: Adapted = {}
    result: str | None = None


class HookReport(ActivityMessage):
    """What `adapt` returned; other hooks return nothing."""

    adaptation: Adapted = {}
    seconds: float = 0.0


class HookFailure(FrozenModel):
    """A hook that failed for good: which, after which iteration, and why."""

    kind: HookKind
    name: str
    iteration: int = 0
    code: str = "error"
    message: str = ""


class IterationFacts(FrozenModel):
    """What `adapt` and `on_iteration` are told of the iteration that just ended.

    Args:
        run: the id of the run.
        kind: of its loop.
        goal: of the task.
        inputs: the named inputs of the task, as texts.
        iteration: its number, from 1.
        output: what it wrote, whole; None if nothing.
        decision: what comes next, such as `continue`.
        score: of the whole; None if it was not scored.
        scores: by dimension of the rubric.
        findings: what is open, as records have it.
        adaptation: the values that were in force in it.
        record: its record, as `perdure history --json` shows it.
        idempotency_key: the same whenever this call is repeated.
    """

    run: str
    kind: str
    goal: str = ""
    inputs: dict[str, str] = {}
    iteration: int
    output: str | None = None
    decision: str = "continue"
    score: float | None = None
    scores: dict[str, float] = {}
    findings: tuple[dict[str, JsonValue], ...] = ()
    adaptation: Adapted = {}
    record: dict[str, JsonValue] = {}
    idempotency_key: str


class EndFacts(FrozenModel):
    """What `on_end` is told of a run that ends.

    `result` is as `perdure result --json` shows it, without what is stored after the hook ran;
    `output` is whole; `idempotency_key` is the same whenever this call is repeated.
    """

    run: str
    kind: str
    goal: str = ""
    inputs: dict[str, str] = {}
    outcome: str
    reason: str
    output: str | None = None
    result: dict[str, JsonValue] = {}
    idempotency_key: str


def wanted(kind: HookKind, use: HookUse) -> WantedHook:
    """The hook as it is asked for at a worker."""
    return WantedHook(kind=kind, name=use.name, parameters=use.parameters)


def adaptation_problem(value: object) -> str | None:
    """Why a value cannot be an adaptation; None if it can."""
    if not isinstance(value, Mapping):
        return f"an object of named values (found {type(value).__name__})"
    if len(value) > MOST_VALUES:
        return f"at most {MOST_VALUES} values (found {len(value)})"
    for name in value:
        if not isinstance(name, str) or not 0 < len(name.strip()) <= NAME_CHARACTERS:
            return f"names of 1 to {NAME_CHARACTERS} characters (found {str(name)[:80]!r})"
    try:
        text = json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"values that JSON can write ({error})"[:WORDS]
    if len(text) > VALUES_CHARACTERS:
        return f"at most {VALUES_CHARACTERS:,} characters as JSON (found {len(text):,})"
    return None


def adaptation_lines(adaptation: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """The values, one a line, as prompts and records show them."""
    return tuple(
        f"{' '.join(name.split())}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in adaptation.items()
    )


def failures_with(before: tuple[HookFailure, ...], failure: HookFailure) -> tuple[HookFailure, ...]:
    """The newest failures, which travel with the run."""
    return (*before, failure)[-FAILURES_KEPT:]


def failure_line(failure: HookFailure) -> str:
    where = f" after iteration {failure.iteration}" if failure.iteration else ""
    return f"{failure.kind} {failure.name} failed{where}: {failure.message}"


def unusable_hooks(kind: str, hooks: Hooks, known: Collection[str] | None) -> list[str]:
    """What is wrong with the hooks of a task of this kind, each with its place.

    Args:
        kind: of the loop.
        hooks: of the task.
        known: the names that a worker serves, None when only the worker can tell.
    """
    found: list[str] = []
    if hooks.adapt is not None and kind != "refine":
        found.append(
            "hooks.adapt: only a refine run adapts between its iterations; leave it out "
            f"(found {hooks.adapt.name} in a run of kind {kind})"
        )
    if known is None:
        return found
    absent = {path: hook for path, hook in hooks.wanted.items() if hook.name not in known}
    return [*found, *(str(_unknown(path, hook, known)) for path, hook in absent.items())]


def unserved_hooks(hooks: Hooks, served: Mapping[str, str]) -> list[Problem]:
    """What workers that serve these hooks (the kind by name) lack, each with its place."""
    return [
        _unknown(path, hook, [name for name, kind in served.items() if kind == hook.kind])
        for path, hook in hooks.wanted.items()
        if served.get(hook.name) != hook.kind
    ]


def _unknown(path: str, hook: WantedHook, known: Collection[str]) -> Problem:
    names = ", ".join(sorted(known)) or f"none: the worker serves no hook of kind {hook.kind}"
    return Problem(
        path=path,
        found=format_value(hook.name),
        allowed=f"{names} (a plugin brings more: --plugin FILE)",
        nearest=nearest_name(hook.name, sorted(known)),
    )


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value
