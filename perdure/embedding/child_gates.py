"""Gates of loops that your workflow awaits, answered by the workflow itself.

    async def on_gate(gate: OpenGate) -> str | None:
        return "approve" if gate.subject == "shop.refund" else None

The loop tells its parent of its open gates by a signal, and the parent answers by another one. All
of it is workflow code: deterministic, and the same on every replay.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue, ValidationError
from temporalio import workflow
from temporalio.exceptions import FailureError

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import BETWEEN_RUNS
from perdure.domain.foundation.problems import format_value
from perdure.domain.foundation.tolerance import read_value
from perdure.domain.run.child_questions import GatesBelow, OpenGate

TOLD = BETWEEN_RUNS[0]
NAME_CHARACTERS = 200
ANSWERS = "a choice or a text, a Reply of such, or None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer to a gate: one of its choices, a text, or both."""

    choice: str | None = None
    text: str | None = None


Given = Reply | str | None
OnGate = Callable[[OpenGate], Given | Awaitable[Given]]
"""Answers a gate: a choice (of a gate without choices the text), a `Reply`, or None to leave it to
people."""


@dataclass(slots=True)
class _Loop:
    """An awaited loop with the function that answers its gates, and one task for each open gate."""

    on_gate: OnGate
    asked: dict[tuple[str, datetime], asyncio.Task[None]] = field(default_factory=dict)


class ChildGates:
    """Receives the open gates of the loops of one workflow, and answers them."""

    def __init__(self) -> None:
        self._loops: dict[str, _Loop] = {}

    @contextmanager
    def answered(self, run: str, on_gate: OnGate) -> Generator[None]:
        """Answer the gates of a loop while it is awaited; of two waits for it, the first does."""
        if run in self._loops:
            yield
            return
        loop = self._loops[run] = _Loop(on_gate)
        try:
            yield
        finally:
            del self._loops[run]
            for task in loop.asked.values():
                task.cancel()

    # Takes anything: a signal that fits no parameters would fail the workflow task again and again.
    def hear(self, *told: object) -> None:
        """Handle the signal with all open gates of a loop; ignore it if it cannot be read."""
        message = _read(told)
        loop = self._loops.get(message.run) if message is not None else None
        if message is None or loop is None:
            return
        # The time is part of the key: after a reset, a loop may open a gate with the same name.
        asks = {(gate.key, gate.opened_at): gate for gate in message.questions}
        for known, task in loop.asked.items():
            if known not in asks:
                task.cancel()  # somebody else has answered
        for asked, gate in asks.items():
            # Each change brings the whole list, so most of its gates were asked about before.
            if asked not in loop.asked:
                loop.asked[asked] = asyncio.create_task(_answer(loop.on_gate, gate))


def gates_of_children() -> ChildGates:
    """The `ChildGates` of the current workflow, made and registered at first use."""
    # Kept at the workflow itself: a variable of the module would be shared by all of its worker.
    known = getattr(workflow.get_signal_handler(TOLD), "__self__", None)
    if isinstance(known, ChildGates):
        return known
    made = ChildGates()
    workflow.set_signal_handler(TOLD, made.hear)
    return made


async def _answer(on_gate: OnGate, gate: OpenGate) -> None:
    try:
        given = on_gate(gate)
        message = _message(gate, await given if inspect.isawaitable(given) else given)
    except Exception:
        # The gate stays open: people can answer it, and its deadline applies.
        workflow.logger.exception("on_gate failed for gate %s; it is left to people", gate.key)
        return
    if message is None:
        return
    try:
        # As JSON, so that it does not matter how the worker's client converts values.
        handle = workflow.get_external_workflow_handle(gate.run)
        await handle.signal("answer", message)
    except FailureError:
        return  # the loop has just ended


def _message(gate: OpenGate, reply: object) -> dict[str, JsonValue] | None:
    """The answer as a message; None leaves the gate to people."""
    if reply is None:
        return None
    if isinstance(reply, str):
        reply = Reply(choice=reply) if gate.choices else Reply(text=reply)
    if not isinstance(reply, Reply) or not _are_texts(reply.choice, reply.text):
        raise InvalidInput(f"on_gate: found {format_value(reply)}; allowed: {ANSWERS}.")
    me = workflow.info().workflow_id
    return {
        # The full name, since an approval is only for the arguments that were shown.
        "gate": gate.gate,
        "choice": reply.choice,
        "text": reply.text,
        "by": f"workflow {me}"[:NAME_CHARACTERS],
    }


def _are_texts(*values: object) -> bool:
    return all(value is None or isinstance(value, str) for value in values)


def _read(told: Sequence[object]) -> GatesBelow | None:
    """The report in a signal, or None: a bad signal must never fail the workflow task."""
    try:
        (message,) = told
        return read_value(GatesBelow, message)
    except (ValidationError, ValueError):
        workflow.logger.warning("a signal %s could not be read, and was dropped", TOLD)
        return None
