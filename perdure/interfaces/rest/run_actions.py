"""Steering one run; a refused verb names the state that forbids it."""

from fastapi import APIRouter

from perdure.domain.run.messages import (
    AddInput,
    Amend,
    Escalate,
    Pause,
    Receipt,
    Resume,
    Retry,
    Stop,
)
from perdure.interfaces.rest.callers import Operator, Site
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.runs import PREFIX, Key, steer
from perdure.interfaces.rest.schemas import AmendBody, InputBody, NoteBody, StopBody
from perdure.interfaces.rest.scopes import require_harmless

router = APIRouter(prefix=f"{PREFIX}/{{run}}", tags=["steer"], route_class=BoundedRoute)


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
    """Change limits or the rubric, or give guidance for all later prompts."""
    require_harmless(caller, {"rubric": body.rubric}, "The rubric")
    message = Amend(
        budget=body.budget, rubric=body.rubric, guidance=body.guidance, remove=body.remove
    )
    return await steer(site, caller, run, message, key)


@router.post("/input")
async def add_input(
    site: Site, caller: Operator, run: str, body: InputBody, key: Key = None
) -> Receipt:
    """Say something; the model reads it before its next call."""
    return await steer(site, caller, run, AddInput(text=body.text), key)
