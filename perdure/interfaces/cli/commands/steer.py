"""Steering: pause, resume, stop, escalate, retry, amend, answer, add."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal
from uuid import uuid4

from cyclopts import Parameter
from pydantic import JsonValue, TypeAdapter, ValidationError

from perdure.domain.foundation.errors import InvalidInput, NoReadyWorker, NotFound, PerdureError
from perdure.domain.run.answering import choices_told
from perdure.domain.run.gates import APPROVE, read_name
from perdure.domain.run.messages import (
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Escalate,
    Pause,
    Receipt,
    Resume,
    Retry,
    Stop,
)
from perdure.domain.run.status import RunStatus
from perdure.gateway.types import OpenGate, OpenGates
from perdure.interfaces.cli.commands.parameters import Given, Ids, Kind, Limits, OneRun, limits_of
from perdure.interfaces.cli.replies import takes_text
from perdure.interfaces.cli.session import ALL, Session, each_run
from perdure.interfaces.cli.views.gates import how_to_answer
from perdure.interfaces.cli.views.layout import DIM
from perdure.interfaces.cli.views.runs import bulk_view, receipt_view, repaired_view
from perdure.interfaces.formatting import some_of
from perdure.interfaces.run_tree import asked_here
from perdure.interfaces.services import Services
from perdure.strict_yaml import parse
from perdure.text_files import read_text

KindFilter = Annotated[Kind | None, Parameter(name="--kind")]
_JSON_LIST: TypeAdapter[list[JsonValue]] = TypeAdapter(list[JsonValue])


async def pause(*runs: Ids, kind: KindFilter = None, session: Given) -> int:
    """Start no new step; the step in flight finishes.

    Args:
        runs: Run ids, unique beginnings of them, @last, or `all`.
        kind: With `all`: runs of this kind only.
    """
    return await steer(session, runs, Pause(by=session.context.user), kind=kind)


async def resume(*runs: Ids, kind: KindFilter = None, session: Given) -> int:
    """Continue paused runs.

    Args:
        runs: Run ids, unique beginnings of them, @last, or `all`.
        kind: With `all`: runs of this kind only.
    """
    return await steer(session, runs, Resume(by=session.context.user), kind=kind)


async def stop(*runs: Ids, now: bool = False, kind: KindFilter = None, session: Given) -> int:
    """End runs with their best results.

    Args:
        runs: Run ids, unique beginnings of them, @last, or `all`.
        now: Cancel the step in flight instead of waiting for it.
        kind: With `all`: runs of this kind only.
    """
    mode: Literal["now", "graceful"] = "now" if now else "graceful"
    return await steer(session, runs, Stop(by=session.context.user, mode=mode), kind=kind)


async def escalate(*runs: Ids, note: str = "", kind: KindFilter = None, session: Given) -> int:
    """Make runs ask you at their next checkpoint.

    Args:
        runs: Run ids, unique beginnings of them, @last, or `all`.
        note: What the question is about.
        kind: With `all`: runs of this kind only.
    """
    message = Escalate(by=session.context.user, note=note)
    return await steer(session, runs, message, kind=kind)


async def retry(*runs: Ids, note: str = "", session: Given) -> int:
    """Continue after a failure, under the same id and with the same budget.

    Args:
        runs: Run ids, unique beginnings of them, or @last.
        note: Guidance for the next prompt.
    """
    code = await steer(session, runs, Retry(by=session.context.user, note=note))
    if code == 0:
        session.output.note(f"Watch it: perdure watch {runs[0]}", style=DIM)
    return code


async def repair(run: OneRun, /, *, repeat: bool = False, session: Given) -> int:
    """Reset a run whose tasks keep failing to its last good point.

    Later messages are sent again, except those that break it.

    Args:
        run: A run id, a unique beginning of one, or @last.
        repeat: Also run steps again that must run once and were begun since, such as a tool that
            is not idempotent. Without it such a repair is refused, and names them.
    """
    async with session.connected() as services:
        (named,) = await each_run(services, (run,))
        repaired = await services.gateway.repair(named, repeat=repeat)
        await session.note_decision(services, "run_repaired", "", run=named)
        session.output.show(repaired_view(repaired), repaired.model_dump(mode="json"))
        return 0


async def amend(
    *runs: Ids,
    budget: Limits = (),
    guidance: str | None = None,
    rubric: Path | None = None,
    remove: tuple[int, ...] = (),
    kind: KindFilter = None,
    session: Given,
) -> int:
    """Change limits or the rubric of runs, or give guidance for all later prompts.

    Args:
        runs: Run ids, unique beginnings of them, @last, or `all`.
        budget: A new limit: USD, or any other as name=value (tokens=50000); may be repeated.
        guidance: Guidance for the next prompt and all later ones.
        remove: The number of earlier guidance to withdraw; may be repeated.
        rubric: A YAML or JSON file with the new rubric.
        kind: With `all`: runs of this kind only.
    """
    if not budget and guidance is None and rubric is None and not remove:
        raise InvalidInput(
            "Nothing to change was given.", cure="Use --budget, --guidance, --rubric, --remove."
        )
    limits = limits_of(budget)
    dimensions = _rubric(session.context.folder / rubric) if rubric else None
    by = session.context.user
    message = Amend(by=by, budget=limits, guidance=guidance, rubric=dimensions, remove=remove)
    return await steer(session, runs, message, kind=kind)


async def answer(
    gate: str, answer: str, /, *, run: str | None = None, text: str | None = None, session: Given
) -> int:
    """Answer an open question; `perdure gates` lists them.

    Args:
        gate: The gate, such as g1 or RUN:g1. To approve a call, its full name, such as g1-7f3a.
        answer: One of its choices, or free text.
        run: The run, if several have a gate of that name.
        text: Text beside a choice, such as guidance with `continue`.
    """
    async with session.connected() as services:
        found = await _gate(services, gate, run)
        chosen = answer if answer in found.gate.choices else None
        # A misspelt choice must not become a text, which would count as a denial.
        if chosen is None and not takes_text(found.gate):
            beside = '; words go beside it, as --text "…"' if found.gate.free_text else ""
            raise InvalidInput(
                f"Gate {found.gate.name} of {found.run} does not take {answer!r}.",
                cure=f"Choose one of: {choices_told(found.gate.choices)}{beside}.",
            )
        if chosen is None and text is not None:
            raise _beside_no_choice(found, answer)
        # As it was typed: the digits of the hash show what the person has seen.
        named = gate.rpartition(":")[2]
        _require_bound(found, named, chosen)
        message = Answer(
            by=session.context.user,
            request_id=uuid4().hex,
            gate=named,
            choice=chosen,
            text=text if chosen else answer,
        )
        receipt = await services.gateway.verb(found.run, message)
        session.output.show(receipt_view(found.run, receipt), _receipt(found.run, receipt))
    return 0


async def add(run: OneRun, text: str, /, *, session: Given) -> int:
    """Tell a run something; the model reads it before its next call.

    Args:
        run: A run id, a unique beginning of one, or @last.
        text: What to say.
    """
    if not text.strip():
        raise InvalidInput("The text is empty.", cure='Give words: perdure add ID "text".')
    return await steer(session, (run,), AddInput(by=session.context.user, text=text))


async def steer(
    session: Session, runs: Sequence[str], message: AnyMessage, *, kind: Kind | None = None
) -> int:
    """Send one verb to each named run, with a request id of its own; return the worst exit code."""
    async with session.connected() as services:
        # What is said to one run, or mends it, is meant for no other.
        if list(runs) == [ALL] and not isinstance(message, AddInput | Retry):
            report = await services.gateway.verb_all(_once(message), kind=kind)
            session.output.show(bulk_view(report), report)
            # Runs that end meanwhile refuse too, so only a refusal by all is a failure.
            return 0 if report.taken or not report.matched else 5
        if kind is not None:
            raise InvalidInput(
                "--kind works with `all` only.", cure="Leave --kind out, or give `all`."
            )
        # One after the other, and all of them: a run that refuses does not keep the others from it.
        codes = [
            await _send(session, services, run, message) for run in await each_run(services, runs)
        ]
    return max(codes)


async def _send(session: Session, services: Services, run: str, message: AnyMessage) -> int:
    try:
        receipt = await services.gateway.verb(run, _once(message))
    except PerdureError as error:
        session.output.error(_about(run, error))
        return error.exit_code
    session.output.show(receipt_view(run, receipt), _receipt(run, receipt))
    return 0


def _about(run: str, error: PerdureError) -> PerdureError:
    """The same error, with the run's name added if it is missing."""
    if run in error.message:
        return error
    return type(error)(f"{run}: {error.message}", cure=error.cure)


def _once(message: AnyMessage) -> AnyMessage:
    # By the same id, a run would take another message for one that it has had already.
    return message.model_copy(update={"request_id": uuid4().hex})


def _receipt(run: str, receipt: Receipt) -> dict[str, JsonValue]:
    return {"type": "receipt", "run": run, **receipt.model_dump(mode="json")}


def _beside_no_choice(found: OpenGate, answer: str) -> InvalidInput:
    """The refusal of words beside what is no choice: one of the two texts would be lost."""
    gate, listed = found.gate, choices_told(found.gate.choices)
    alone = "Give your words alone, without --text."
    return InvalidInput(
        f"--text goes beside a choice, and {answer!r} is none of gate {gate.name} of {found.run}.",
        cure=f"Choose one of: {listed}. Or: {alone}" if listed else alone,
    )


def _require_bound(found: OpenGate, named: str, chosen: str | None) -> None:
    """Require an approval to name the full gate: its number may by now mean other arguments.

    Raises:
        InvalidInput: an approval by the number alone.
    """
    gate = found.gate
    if gate.kind == "tool_approval" and chosen == APPROVE and read_name(named).begins is None:
        raise InvalidInput(
            f"An approval names what it approves. {found.run}:{gate.name} asks:\n"
            f"{gate.prompt.strip()}",
            cure=f"If that is right: {how_to_answer(gate, found.run, APPROVE)}",
        )


async def _gate(services: Services, gate: str, run: str | None) -> OpenGate:
    """Find the open gate; the run may be left out if only one run has such a gate."""
    before, separator, name = gate.rpartition(":")
    wanted, wanted_id = run or (before if separator else None), read_name(name).id
    resolved = await services.gateway.resolve(wanted) if wanted else None
    waiting = OpenGates()
    if resolved is not None:
        status = await services.gateway.status(resolved)
        if run and before:
            # The gate's own run is meant then, of all that ask below the other.
            name = f"{await services.gateway.resolve(before)}:{name}"
        found = await asked_here(services.gateway, status, name)
        if not found:
            _require_heard(status)
    else:
        waiting = await services.gateway.gates()
        found = [item for item in waiting.gates if item.gate.id == wanted_id]
        # Only then: a gate that was found is answered, whoever else does not answer.
        if not found and waiting.unread:
            raise NoReadyWorker(
                f"No run that answers has an open gate {name!r}; what these ask is not known now: "
                f"{some_of(waiting.unread)}.",
                cure="`perdure gates` says why.",
            )
    if not found:
        where = f" in {resolved}" if resolved else ""
        asked = "" if resolved else await _asked_by(services, gate, waiting.gates)
        told = f"{gate} is a run, which asks {asked}; name that." if asked else ""
        raise NotFound(
            f"No open gate {name!r}{where}.",
            cure=told or "`perdure gates` lists what waits for a person.",
        )
    if len(found) > 1:
        named = some_of([f"{item.run}:{item.gate.name}" for item in found])
        raise InvalidInput(f"Several runs have a gate {name}: {named}.", cure="Name one of these.")
    return found[0]


async def _asked_by(services: Services, named: str, waiting: Sequence[OpenGate]) -> str:
    """The open gates of a run that was named in the place of its gate; empty if it has none."""
    try:
        run = await services.gateway.resolve(named)
    except PerdureError:
        return ""
    return some_of([f"{item.run}:{item.gate.name}" for item in waiting if item.run == run])


def _require_heard(status: RunStatus) -> None:
    """Require that a run without such a gate has said so itself.

    Raises:
        NoReadyWorker: it is open, and only the store speaks for it, which knows of no questions.
    """
    if status.source == "store" and status.phase != "ended":
        raise NoReadyWorker(
            f"What the run {status.id} asks is not known now: "
            f"{status.trouble or 'no worker answers for it.'}",
            cure=f"`perdure status {status.id}` says what it waits for.",
        )


def _rubric(path: Path) -> list[JsonValue]:
    loaded = parse(read_text(path), named=str(path))
    inner = loaded.get("rubric", loaded) if isinstance(loaded, dict) else loaded
    try:
        return _JSON_LIST.validate_python(inner)
    except ValidationError:
        raise InvalidInput(
            f"{path} holds no list of dimensions.", cure="Write a list, or a map with `rubric:`."
        ) from None
