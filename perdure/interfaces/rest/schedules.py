"""Schedules: tasks that start by the clock, within a monthly budget."""

import asyncio
import hashlib
import json
import uuid
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import ConfigDict, Field, JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.installation.access import IdempotencyRecord, schedule_source
from perdure.domain.run.audit import Action
from perdure.domain.schedules.plan import LONGEST_NAME, NAME, MonthlyBudget, Overlap, Times
from perdure.domain.schedules.status import ScheduleStatus, Triggered
from perdure.interfaces.rest.callers import Caller, Operator, Reader, Site, note_requester
from perdure.interfaces.rest.idempotent_start import Starts
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.runs import StartKey, require_same
from perdure.interfaces.rest.scopes import trusted_submission
from perdure.interfaces.rest.settings import ApiSite
from perdure.submission.loading import store
from perdure.submission.schedules import schedule_plan

SCHEDULES = "/api/v1/schedules"
# The words before the name of a schedule, in place of the id of a run that is not known yet. No id
# of a run has a space.
STAND_IN = "start of"
LOOKS, LOOK_PAUSE_S = 60, 0.25
router = APIRouter(prefix=SCHEDULES, tags=["schedules"], route_class=BoundedRoute)
Name = Annotated[str, Path(pattern=NAME, max_length=LONGEST_NAME, description="Its name.")]


class Schedules(FrozenModel):
    """All schedules, by name; `note` names those that cannot be read."""

    items: tuple[ScheduleStatus, ...] = ()
    note: str = ""


class ScheduleBody(FrozenModel):
    """A schedule to create. `task` has the fields of a task file; files are not read over REST."""

    # FastAPI cannot complete a deferred schema that holds any JSON.
    model_config = ConfigDict(defer_build=False)

    name: Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME)]
    task: dict[str, JsonValue]
    times: Times
    overlap: Overlap = "skip"
    catch_up_s: float = 3_600
    month: MonthlyBudget = MonthlyBudget()
    paused: bool = False
    replace: bool = False


class ScheduleNoteBody(FrozenModel):
    """Why, for whoever looks at it."""

    note: Annotated[str, Field(max_length=500)] = ""


@router.get("")
async def list_schedules(site: Site, _: Reader) -> Schedules:
    """All schedules with their next starts and what their month has cost."""
    schedules = site.services.schedules()
    note = " ".join(one.why for one in await schedules.unreadable())
    return Schedules(items=tuple(await schedules.list()), note=note)


@router.post("", status_code=201)
async def create_schedule(
    site: Site, caller: Operator, response: Response, body: ScheduleBody
) -> ScheduleStatus:
    """Start a task by the clock from now on; the same schedule sent again is that schedule."""
    submission = await trusted_submission(site, caller, body.task)
    options = body.model_dump(mode="json", exclude={"task", "paused", "replace"})
    plan = schedule_plan(await store(submission, site.services.blobs), options)
    created = await site.services.schedules().create(
        plan,
        paused=body.paused,
        replace=body.replace,
        noted=lambda: note_requester(site, caller, schedule_source(body.name)),
    )
    await _note_decision(
        site, caller, "schedule_changed" if body.replace else "schedule_created", body.name
    )
    response.headers["location"] = f"{SCHEDULES}/{body.name}"
    return created


@router.get("/{schedule}")
async def get_schedule(site: Site, _: Reader, schedule: Name) -> ScheduleStatus:
    """One schedule: its next starts, its month, and what came of its last starts."""
    return await site.services.schedules().status(schedule)


@router.post("/{schedule}/pause")
async def pause_schedule(
    site: Site, caller: Operator, schedule: Name, body: ScheduleNoteBody | None = None
) -> ScheduleStatus:
    """Start nothing until it is resumed; open runs go on."""
    found = await site.services.schedules().pause(schedule, note=(body or ScheduleNoteBody()).note)
    await _note_decision(site, caller, "schedule_paused", schedule)
    return found


@router.post("/{schedule}/resume")
async def resume_schedule(
    site: Site, caller: Operator, schedule: Name, body: ScheduleNoteBody | None = None
) -> ScheduleStatus:
    """Start its task by the clock again; what it missed is not made up for."""
    found = await site.services.schedules().resume(schedule, note=(body or ScheduleNoteBody()).note)
    await _note_decision(site, caller, "schedule_resumed", schedule)
    return found


@router.post("/{schedule}/trigger")
async def trigger_schedule(
    request: Request, site: Site, caller: Operator, schedule: Name, idempotency_key: StartKey = None
) -> Triggered:
    """Start its task once, now, also while it is paused; its overlap policy counts."""
    starts: Starts = request.app.state.starts
    wanted = _claim_of(site, caller, schedule, idempotency_key)
    async with starts.join_start(wanted) as claimed:
        require_same(claimed.claim, wanted)
        claim = claimed.claim
        if claim.run != wanted.run:
            claim = await _wait_for_claim(site, wanted)
        if (settled := _earlier_trigger(claim, schedule)) is not None:
            return settled
        schedules = site.services.schedules()
        # A name that does not exist is refused before anything is noted of it.
        await schedules.status(schedule)
        # Before the run, and for one that comes later: it is the caller's too.
        await note_requester(site, caller, schedule_source(schedule))
        found = await schedules.trigger(schedule, request=_request_id(wanted))
        await _settle(site, claim, found)
        claimed.mark_started()
    await _note_decision(site, caller, "schedule_triggered", schedule, run=found.run)
    return found


@router.delete("/{schedule}", status_code=204)
async def delete_schedule(site: Site, caller: Operator, schedule: Name) -> None:
    """End a schedule; its runs stay, and those that are open go on."""
    await site.services.schedules().delete(schedule)
    await _note_decision(site, caller, "schedule_deleted", schedule)


def _claim_of(site: ApiSite, caller: Caller, name: str, key: str | None) -> IdempotencyRecord:
    """The claim of a start whose run the server names later."""
    return IdempotencyRecord(
        run=f"{STAND_IN} {name} {uuid.uuid4().hex}",
        token=caller.token.id,
        at=site.now(),
        key=key,
        body_hash=hashlib.sha256(f"{STAND_IN} {name}".encode()).hexdigest(),
    )


async def _wait_for_claim(site: ApiSite, wanted: IdempotencyRecord) -> IdempotencyRecord:
    """The claim of an earlier request with this key, once it is settled.

    One that is not settled in time died on its way: its start is asked for again.
    """
    claim = await site.services.access.claim_start(wanted)
    for _ in range(LOOKS):
        if claim.run == wanted.run or _earlier_trigger(claim, "") is not None:
            break
        await asyncio.sleep(LOOK_PAUSE_S)
        claim = await site.services.access.claim_start(wanted)
    return claim


def _earlier_trigger(claim: IdempotencyRecord, name: str) -> Triggered | None:
    if not claim.run.startswith(f"{STAND_IN} "):
        return Triggered(schedule=name, run=claim.run, replayed=True)
    return Triggered(schedule=name, why=claim.why, replayed=True) if claim.why else None


async def _settle(site: ApiSite, claim: IdempotencyRecord, found: Triggered) -> None:
    access = site.services.access
    # Without a key nobody can ask for it again.
    if claim.key is None and found.run is None:
        await access.forget_start(claim.run)
    elif not await access.settle_start(claim.run, run=found.run, why=found.why):
        why = f"the run {found.run} began, which another request asked for too"
        await access.settle_start(claim.run, run=None, why=why)


def _request_id(wanted: IdempotencyRecord) -> str:
    """The id under which the server does the request once; without a key each is another one."""
    told = [wanted.token, wanted.key, wanted.body_hash] if wanted.key else [wanted.run]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


async def _note_decision(
    site: ApiSite, caller: Caller, action: Action, name: str, *, run: str | None = None
) -> None:
    await site.trail.note_decision(action, schedule_source(name), by=caller.name, run=run)
