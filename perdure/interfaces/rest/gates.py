"""Open questions to people: list them, read one, answer one."""

import json
from datetime import UTC

from fastapi import APIRouter

from perdure.domain.foundation.errors import NotFound
from perdure.domain.run.child_runs import is_below
from perdure.domain.run.gates import NO_SUCH_GATE, Gate, read_name
from perdure.domain.run.messages import GATE_CHARACTERS, Answer, Receipt
from perdure.gateway.types import OpenGate
from perdure.interfaces.formatting import some_of
from perdure.interfaces.rest.callers import Answerer, Caller, Reader, Site, known_run
from perdure.interfaces.rest.error_responses import Refused, WrongState, invalid
from perdure.interfaces.rest.paging import PAGE, CursorText, Limit, cursors, foreign_cursor
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.runs import PREFIX, Key, steer
from perdure.interfaces.rest.schemas import FRESH_NOTE, AnswerBody, Gates
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.run_tree import asked_here, gate_in_full
from perdure.interfaces.tokens import requested

router = APIRouter(tags=["gates"], route_class=BoundedRoute)


@router.get("/api/v1/gates")
async def list_gates(
    site: Site, caller: Reader, limit: Limit = PAGE, cursor: CursorText = None
) -> Gates:
    """Everything that waits for a person, oldest first, with the exact arguments and their hash."""
    pages = await cursors(site, "gates")
    behind = _place(pages.read(cursor))
    found = await site.services.gateway.gates()
    later = sorted((one for one in found.gates if behind is None or _key(one) > behind), key=_key)
    ours = [one for one in later if await caller.sees(site, one.run)]
    unread = [run for run in found.unread if await caller.sees(site, run)]
    return Gates(
        items=tuple(ours[:limit]),
        cursor=pages.made(json.dumps(_key(ours[limit - 1])) if len(ours) > limit else None),
        unread=tuple(unread),
        reasons={run: found.reasons[run] for run in unread if run in found.reasons},
        note=FRESH_NOTE,
    )


def _key(one: OpenGate) -> tuple[str, str, str]:
    """The place of a question in the list, whatever is asked or answered meanwhile."""
    return (
        # These are compared as texts, and by default a moment without microseconds has none.
        one.gate.opened_at.astimezone(UTC).isoformat(timespec="microseconds"),
        one.run,
        one.gate.id,
    )


def _place(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    place = json.loads(text)
    if not isinstance(place, list):  # signed by an earlier version, which counted questions
        raise foreign_cursor()
    return tuple(str(part) for part in place)


@router.get(f"{PREFIX}/{{run}}/gates/{{gate}}")
async def get_gate(site: Site, _: Reader, run: str, gate: str) -> Gate:
    """One question that waits, with all of what it asks about in its prompt."""
    await known_run(site, run)
    found = (await _gate(site, run, gate))[1]
    if found is None or not found.is_meant(gate.rpartition(":")[2]):
        raise _no_gate(run, gate)
    return await gate_in_full(found, site.services.blobs)


@router.post(f"{PREFIX}/{{run}}/gates/{{gate}}/answer")
async def answer(
    site: Site, caller: Answerer, run: str, gate: str, body: AnswerBody, key: Key = None
) -> Receipt:
    """Answer a question; 409 when somebody else was first, or the arguments are others.

    A question of a run below is answered here too, by its name or as `RUN:g1`.
    An approval calls the gate by its whole name (`g1-7f3a`), or repeats its `args_hash`.
    """
    await known_run(site, run)
    run, asked = await _gate(site, run, gate)
    if asked is not None:
        gate = gate.rpartition(":")[2]
    else:
        run, gate = _named_below(run, gate)
    await _require_answerable(site, caller, run, asked, body, named=gate)
    named = gate[:GATE_CHARACTERS]
    message = Answer(gate=named, choice=body.choice, text=body.text, args_hash=body.args_hash)
    try:
        return await steer(site, caller, run, message, key)
    except WrongState as error:
        if NO_SUCH_GATE in error.message:
            raise _no_gate(run, gate) from error
        raise


def _no_gate(run: str, gate: str) -> NotFound:
    return NotFound(
        f"The run {run} has no gate {gate[:80]!r}.", cure="GET /api/v1/gates lists them."
    )


async def _gate(site: ApiSite, run: str, gate: str) -> tuple[str, Gate | None]:
    """The open gate, and the run that asks it: the named run or one below it."""
    gateway = site.services.gateway
    found = await asked_here(gateway, await gateway.status(run), gate)
    if len(found) > 1:
        named = some_of([f"{one.run}:{one.gate.name}" for one in found])
        raise invalid("gate", f"several runs below have it: {named}")
    return (found[0].run, found[0].gate) if found else (run, None)


def _named_below(run: str, gate: str) -> tuple[str, str]:
    """The run that a name such as `RUN:g1` means, and the name of the gate there.

    An answer that is sent again must be the same message to the same run as the first time, when
    the gate was open.
    """
    named, separator, name = gate.strip().rpartition(":")
    ours = separator and (named == run or is_below(named, run))
    return (named, name) if ours else (run, gate)


async def _require_answerable(
    site: ApiSite, caller: Caller, run: str, asked: Gate | None, body: AnswerBody, *, named: str
) -> None:
    if asked is not None and body.choice is None and not body.text:
        listed = ", ".join(asked.choices) or "a text"
        raise invalid("choice", f"found nothing; allowed: {listed}")
    if body.choice != "approve" or (asked is not None and asked.kind != "tool_approval"):
        return
    if asked is not None and body.args_hash is None and read_name(named).begins is None:
        told = f"an approval repeats the hash of the arguments: {asked.args_hash}"
        cure = f"Read the gate, then call it {asked.name} in the path, or send its args_hash."
        raise invalid("args_hash", told, cure=cure)
    if not site.rules.separate_approver or not await requested(site.services, caller.token, run):
        return
    if asked is None:
        # Otherwise the gate could open before the answer arrives, and the starter would approve it.
        raise NotFound(
            f"The run {run} has no open gate of that name.", cure="GET /api/v1/gates lists them."
        )
    raise Refused(
        403,
        "own_run",
        f"The token {caller.token.name!r} started the run {run}, so it cannot approve for it.",
        cure="Let somebody else approve, with a token of their own.",
    )
