"""Loops of roles as programs and agents handle them: what there is, start, look, control.

No action here answers a gate: that stays with people.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from pydantic import JsonValue

from perdure.domain.budget.accounting import Reservation
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.json_extraction import read_json
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.run.status import RunStatus

LoopAction = Literal["pause", "resume", "stop", "retry"]
ACTIONS: tuple[LoopAction, ...] = ("pause", "resume", "stop", "retry")
STATUSES = ("running", "paused", "waiting", "completed", "failed", "stopped", "cancelled")


class LoopParameter(FrozenModel):
    """A value that whoever starts the loop gives."""

    name: str
    description: str = ""
    required: bool = True
    default: JsonValue = None
    choices: tuple[str | int | float | bool, ...] = ()


class LoopFacts(FrozenModel):
    """A definition that can be started: its stages in order, what ends it, what it asks for."""

    name: str
    description: str = ""
    origin: str
    stages: tuple[str, ...]
    ends: str
    parameters: tuple[LoopParameter, ...] = ()


class LoopRow(FrozenModel):
    """One run in a list."""

    id: str
    definition: str | None = None
    goal: str
    lifecycle: str
    phase: str | None = None
    blocked_on: str | None = None
    outcome: str | None = None
    iteration: int | None = None
    cost_usd: float | None = None
    started_at: datetime | None = None


class LoopRows(FrozenModel):
    """Runs, the newest first; `note` says what may be missing."""

    loops: tuple[LoopRow, ...] = ()
    note: str = ""


class ListedRun(LoopRow):
    """One run of any kind in a list."""

    kind: str


class ListedRuns(FrozenModel):
    """Runs of every kind, the newest first; `note` says what may be missing."""

    runs: tuple[ListedRun, ...] = ()
    note: str = ""


class LoopStarted(FrozenModel):
    """A run that was started, and what to know of how it was told."""

    id: str
    notes: tuple[str, ...] = ()


class LoopControlled(FrozenModel):
    """What an action did: the runs that took it, and why others did not."""

    action: LoopAction
    taken: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    note: str = ""


class LoopAsk(FrozenModel):
    """A loop to start; `budget` and `model` narrow what the run would have by default.

    `caller` is the run whose model asks, empty for people and other programs; `key` makes a
    repeated request one run. Of one who is not `trusted`, no stage may run programs or have full
    access.
    """

    definition: str
    goal: str
    parameters: dict[str, JsonValue] = {}
    max_iterations: int | None = None
    workspace: str | None = None
    caller: str = ""
    key: str | None = None
    trusted: bool = True


class LoopControl(Protocol):
    """What interfaces and agents may do with loops; a `caller` reaches only the runs it started."""

    async def definitions(self) -> tuple[LoopFacts, ...]:
        """Every definition that can be started."""
        ...

    async def start(self, ask: LoopAsk) -> LoopStarted:
        """Start a run of a definition; raises `InvalidInput`, `NotAllowed`, `NoReadyWorker`."""
        ...

    async def rows(self, status: str | None = None) -> LoopRows:
        """The newest runs of definitions."""
        ...

    async def status(self, run: str) -> RunStatus:
        """One look at a run, named by its id or a unique beginning of it."""
        ...

    async def held(self, caller: str) -> dict[str, Reservation]:
        """What the loops that a run started hold of its envelope, as it stands now."""
        ...

    async def control(
        self, action: str, run: str, *, note: str = "", caller: str = "", request: str = ""
    ) -> LoopControlled:
        """Steer one run, or `all` open ones; `request` makes a repeat one."""
        ...


def parameters_of(given: JsonValue, *, of: str = "parameters") -> dict[str, JsonValue]:
    """Parameters as an object, or as the text of one; `of` names the argument in errors.

    Raises:
        InvalidInput: it is neither.
    """
    value = given
    example = '{"topic": "rust"}' if of == "parameters" else '{"budget": {"cost_usd": 0.5}}'
    cure = f"Give an object, such as {example}."
    if isinstance(given, str):
        try:
            value = read_json(given) if given.strip() else {}
        except ValueError as error:
            raise InvalidInput(
                f"{of}: found {given[:80]!r}, which is no JSON ({error}).",
                cure=cure,
            ) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(
            f"{of}: found {json.dumps(value)[:80]}.",
            cure=cure,
        )
    return value


def action_of(word: str) -> LoopAction:
    """An action by its name; raises `InvalidInput` with the nearest one."""
    for action in ACTIONS:
        if word == action:
            return action
    raise _unknown("action", word, ACTIONS, note="; people alone answer gates")


def status_of(word: str | None) -> str | None:
    """A status to list by; raises `InvalidInput` with the nearest one."""
    if word is None or word in STATUSES:
        return word
    raise _unknown("status", word, STATUSES)


def _unknown(what: str, word: str, known: Sequence[str], *, note: str = "") -> InvalidInput:
    return InvalidInput(
        f"{what}: found {word[:40]!r}.{did_you_mean(word, known)}",
        cure=f"There are {', '.join(known)}{note}.",
    )
