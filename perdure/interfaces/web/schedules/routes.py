"""Schedules: the list with each month's cost, the page of one, and the form of a new one."""

import asyncio
import uuid
from dataclasses import dataclass

import yaml
from fastapi import APIRouter
from fastapi.responses import Response

from perdure.domain.schedules.status import ScheduleStatus, Triggered
from perdure.interfaces.rest.schedules import Schedules
from perdure.interfaces.rest.tasks import ReadyTask
from perdure.interfaces.schedule_words import (
    OVERLAP_WORDS,
    budget_words,
    local,
    month_words,
    state_words,
    times_words,
    trouble,
)
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.schedules.schedule_form import ScheduleForm
from perdure.interfaces.web.visit import Fields, Here, Visit, kept_key, once_of, run_path

VERBS = ("pause", "resume")
router = APIRouter()


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule as text."""

    name: str
    address: str
    state: str
    style: str
    times: str
    next_at: str
    month: str
    trouble: str


@dataclass(frozen=True, slots=True)
class StartRow:
    """One start of a schedule: a link to its run, or why it was refused."""

    at: str
    run: str
    address: str
    refused: str


@router.get("/schedules")
async def show_all(visit: Here) -> Response:
    """List all schedules by name."""
    found = await visit.api.get("/schedules", Schedules)
    return visit.page(
        "schedules/list.html", rows=[_row(one) for one in found.items], note=found.note
    )


# Before the page of one schedule, whose path would match too; none may have this name.
@router.get("/schedules/new")
async def show_form(visit: Here, task: str = "") -> Response:
    """Show the form, empty or filled from a ready-made task."""
    text = ""
    if task:
        fields = (await visit.api.get(at("tasks", task), ReadyTask)).fields
        text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)
    return _form(visit, ScheduleForm(name=task, task=text))


@router.post("/schedules/new")
async def create(visit: Here, fields: Fields) -> Response:
    """Create the schedule, or show the form with the problems."""
    form = ScheduleForm.read(fields)
    try:
        # YAML takes its time, in which the process must answer others.
        body = await asyncio.to_thread(form.body)
        made = await visit.api.post("/schedules", ScheduleStatus, body)
    except ApiProblem as problem:
        if problem.status in {401, 429}:
            raise
        return _form(visit, form, problem)
    return visit.go(at("schedules", made.plan.name))


@router.get("/schedules/{schedule}")
async def show(visit: Here, schedule: str) -> Response:
    return await _shown(visit, schedule)


# This and the next before `{verb}`, which would match too.
@router.post("/schedules/{schedule}/trigger")
async def trigger(visit: Here, fields: Fields, schedule: str) -> Response:
    """Start the task once, however often the form is sent; show the run, or why there is none."""
    path = at("schedules", schedule, "trigger")
    try:
        came = await visit.api.post(path, Triggered, headers=once_of(fields))
    except ApiProblem as problem:
        once = kept_key(fields, problem, name="once")
        return await _shown(visit, schedule, problem, once=once)
    if came.run is not None:
        return visit.go(run_path(came.run))
    return await _shown(visit, schedule, ApiProblem(409, "not_started", f"Not started: {came.why}"))


@router.post("/schedules/{schedule}/delete")
async def delete(visit: Here, schedule: str) -> Response:
    """Delete the schedule; its runs stay."""
    try:
        await visit.api.delete(at("schedules", schedule))
    except ApiProblem as problem:
        return await _shown(visit, schedule, problem)
    return visit.go("/schedules")


@router.post("/schedules/{schedule}/{verb}")
async def steer(visit: Here, schedule: str, verb: str) -> Response:
    """Pause or resume the schedule."""
    if verb not in VERBS:
        raise ApiProblem(404, "not_found", "There is no such page.")
    try:
        await visit.api.post(at("schedules", schedule, verb), ScheduleStatus)
    except ApiProblem as problem:
        return await _shown(visit, schedule, problem)
    return visit.go(at("schedules", schedule))


async def _shown(
    visit: Visit, schedule: str, found: ApiProblem | None = None, *, once: str = ""
) -> Response:
    status = await visit.api.get(at("schedules", schedule), ScheduleStatus)
    plan = status.plan
    return visit.page(
        "schedules/schedule.html",
        status_code=found.status if found else 200,
        found=found,
        status=status,
        row=_row(status),
        overlap=OVERLAP_WORDS[plan.overlap],
        once=once or uuid.uuid4().hex,
        budget=budget_words(plan),
        upcoming=[local(one, plan.times) for one in status.next_at],
        running=[(one, run_path(one)) for one in status.running],
        starts=[
            StartRow(local(one.at, plan.times), one.run, run_path(one.run), one.refused)
            for one in status.starts
        ],
    )


def _form(visit: Visit, form: ScheduleForm, found: ApiProblem | None = None) -> Response:
    return visit.page(
        "schedules/new.html",
        status_code=found.status if found else 200,
        found=found,
        form=form,
        overlaps=OVERLAP_WORDS,
    )


def _row(status: ScheduleStatus) -> Row:
    plan = status.plan
    return Row(
        name=plan.name,
        address=at("schedules", plan.name),
        state=state_words(status),
        style={"active": "running", "paused": "paused", "missing": "failed"}[status.state],
        times=times_words(plan.times),
        next_at=local(status.next_at[0], plan.times) if status.next_at else "",
        month=month_words(status),
        trouble=trouble(status) if status.state != "missing" else "",
    )
