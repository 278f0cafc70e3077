"""Steering one run: the verbs, each refused with the state that forbids it."""

import uuid
from typing import Annotated

from fastapi import APIRouter, Header

from perdure.domain.errors import NotAllowed, PerdureError
from perdure.domain.messages import (
    NAME_CHARACTERS,
    AddInput,
    Amend,
    AnyMessage,
    Escalate,
    Pause,
    Receipt,
    Resume,
    Retry,
    Stop,
)
from perdure.interfaces.api.bodies import BoundedRoute
from perdure.interfaces.api.caller import Caller, Operator, Site, known_run
from perdure.interfaces.api.facts import ApiSite
from perdure.interfaces.api.loops import PREFIX
from perdure.interfaces.api.problems import WrongState
from perdure.interfaces.api.views import AmendBody, InputBody, NoteBody, StopBody

router = APIRouter(prefix=f"{PREFIX}/{{run}}", tags=["steer"], route_class=BoundedRoute)
Key = Annotated[
    str | None,
    Header(
        alias="idempotency-key",
        min_length=1,
        max_length=NAME_CHARACTERS - 32,
        description="A repeated one has one effect.",
    ),
]


@router.post("/pause")
async def pause(site: Site, caller: Operator, run: str, key: Key = None) -> Receipt:
    """Start no new step; a step in flight finishes."""
    return await steer(site, caller, run, Pause(), key)


@router.post("/resume")
async def resume(site: Site, caller: Operator, run: str, key: Key = None) -> Receipt:
    """Go on where a paused run stood."""
    return await steer(site, caller, run, Resume(), key)


@router.post("/stop")
async def stop(
    site: Site, caller: Operator, run: str, body: StopBody | None = None, key: Key = None
) -> Receipt:
    """End with the best result: after the step in flight, or `now`."""
    return await steer(site, caller, run, Stop(mode=(body or StopBody()).mode), key)


@router.post("/retry")
async def retry(
    site: Site, caller: Operator, run: str, body: NoteBody | None = None, key: Key = None
) -> Receipt:
    """Go on after a failure, under the same id and on the same account."""
    return await steer(site, caller, run, Retry(note=(body or NoteBody()).note), key)


@router.post("/escalate")
async def escalate(
    site: Site, caller: Operator, run: str, body: NoteBody | None = None, key: Key = None
) -> Receipt:
    """Make the run ask a person at its next checkpoint."""
    return await steer(site, caller, run, Escalate(note=(body or NoteBody()).note), key)


@router.post("/amend")
async def amend(
    site: Site, caller: Operator, run: str, body: AmendBody, key: Key = None
) -> Receipt:
    """Change limits or the rubric, or give guidance for the next prompt."""
    message = Amend(budget=body.budget, rubric=body.rubric, guidance=body.guidance)
    return await steer(site, caller, run, message, key)


@router.post("/input")
async def add_input(
    site: Site, caller: Operator, run: str, body: InputBody, key: Key = None
) -> Receipt:
    """Say something; the model reads it before its next call."""
    return await steer(site, caller, run, AddInput(text=body.text), key)


async def steer(
    site: ApiSite, caller: Caller, run: str, message: AnyMessage, key: str | None
) -> Receipt:
    """Send one verb in the caller's name; a refusal names the state."""
    await known_run(site, run)
    # The key of one token says nothing about another's.
    request = f"{caller.token.id}:{key}" if key else uuid.uuid4().hex
    sent = message.model_copy(update={"by": caller.name, "request_id": request})
    try:
        return await site.services.gateway.verb(run, sent)
    except NotAllowed as error:
        raise WrongState(error.message, cure=error.cure, state=await _state(site, run)) from error


async def _state(site: ApiSite, run: str) -> str | None:
    try:
        return (await site.services.gateway.status(run)).lifecycle
    except PerdureError:
        return None
