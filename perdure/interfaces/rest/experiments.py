"""Experiments: a task over many inputs in several arms, and the report of what it found."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Response
from pydantic import ConfigDict, Field, JsonValue

from perdure.domain.experiments.plan import Plan, trial_task
from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.experiments.store import Place
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.foundation.names import run_id
from perdure.domain.foundation.problems import format_value
from perdure.domain.installation.access import experiment_source
from perdure.domain.run.audit import Action
from perdure.interfaces.experiments.bounds import bounded, check_added
from perdure.interfaces.experiments.export import csv_of, json_lines_of, markdown, svg
from perdure.interfaces.experiments.planned import PlannedExperiment, planned
from perdure.interfaces.experiments.reading import Found, read_report
from perdure.interfaces.experiments.report import ExperimentReport
from perdure.interfaces.rest.callers import Caller, Operator, Reader, Site, note_requester
from perdure.interfaces.rest.error_responses import Refused, invalid
from perdure.interfaces.rest.paging import PAGE, CursorText, Limit, cursors
from perdure.interfaces.rest.request_limits import BoundedRoute, Fields
from perdure.interfaces.rest.runs import KEY_CHARACTERS, digest_of_body
from perdure.interfaces.rest.schemas import Page
from perdure.interfaces.rest.scopes import require_served, require_trust
from perdure.interfaces.rest.settings import ApiSite
from perdure.submission.experiments import (
    ExperimentSubmission,
    experiment_of,
    more_entries,
    named_folders,
    stored_plan,
)

CSV, MARKDOWN, SVG = "text/csv", "text/markdown", "image/svg+xml"
NDJSON = "application/x-ndjson"
FORMS = {CSV: "csv", NDJSON: "jsonl", MARKDOWN: "md", SVG: "svg"}
router = APIRouter(prefix="/api/v1/experiments", tags=["experiments"], route_class=BoundedRoute)
ExperimentKey = Annotated[
    str | None,
    Header(
        alias="idempotency-key",
        min_length=1,
        max_length=KEY_CHARACTERS,
        description="The same key with the same body starts one experiment; with another body: "
        "409. An `id` in the body counts instead of it.",
    ),
]
Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,200}$", description="The experiment's id.")]


class ExperimentPage(Page):
    """One page of experiments, the newest first."""

    items: tuple[ExperimentStatus, ...] = ()


class ResumeBody(FrozenModel):
    """What all runs may spend together from now on; without it, what the plan says."""

    cost_usd: Decimal | None = Field(default=None, gt=0, le=10**9)
    tokens: int | None = Field(default=None, gt=0, le=10**12)


class StopExperimentBody(FrozenModel):
    """`now` stops the open runs too."""

    mode: Literal["graceful", "now"] = "graceful"


class InputsBody(FrozenModel):
    """Further inputs, with the fields of those that are there.

    `after` is how many there are; sent again, they are refused (409) instead of added twice.
    """

    # FastAPI cannot complete a deferred schema that holds any JSON.
    model_config = ConfigDict(defer_build=False)

    inputs: list[JsonValue]
    after: int | None = Field(default=None, ge=1)


@router.get("")
async def list_experiments(
    site: Site, _: Reader, limit: Limit = PAGE, cursor: CursorText = None
) -> ExperimentPage:
    """All experiments, the newest first; how many runs are open is told of one alone."""
    pages = await cursors(site, "experiments", "newest")
    # One more than the page holds, to know whether there is a next page.
    found = await site.services.experiments().list(
        limit=limit + 1, after=_place(pages.read(cursor))
    )
    last = found[limit - 1] if len(found) > limit else None
    return ExperimentPage(
        items=tuple(found[:limit]),
        cursor=pages.made(None if last is None else f"{last.created_at.isoformat()} {last.id}"),
    )


@router.post(
    "",
    status_code=201,
    responses={
        200: {
            "model": ExperimentStatus,
            "description": "The experiment that the same request started before.",
        }
    },
)
async def start_experiment(
    site: Site,
    caller: Operator,
    response: Response,
    experiment: Fields,
    idempotency_key: ExperimentKey = None,
) -> ExperimentStatus:
    """Start an experiment from the fields of its file; inputs are a list.

    With an `id` or an `idempotency-key` the same experiment sent again is one experiment.
    """
    experiments, sent = site.services.experiments(), digest_of_body(experiment)
    id = _id_in(experiment)
    keyed = id is None and idempotency_key is not None
    if keyed:
        id = run_id("experiment", "", f"key:{caller.token.id}:{idempotency_key}")
    # Before a plan is made of the request: defaults and prices may have changed since.
    if id is not None and await experiments.try_repeat(id, sent=sent):
        response.status_code = 200
    else:
        submitted = await _submitted(site, caller, experiment)
        plan = await _bounded(site, submitted, await stored_plan(submitted, site.services.blobs))
        id = id or run_id("experiment", plan.name, uuid.uuid4().hex)
        await note_requester(site, caller, experiment_source(id))
        try:
            await experiments.start(plan, submitted.entries, id=id, sent=sent)
        except NotAllowed as error:
            # The caller has not seen the id that was made of the key.
            if keyed and type(error) is NotAllowed:
                raise _of_another(error) from error
            raise
        await _note_decision(site, caller, "experiment_started", id)
    response.headers["location"] = f"/api/v1/experiments/{id}"
    return await experiments.status(id)


@router.post("/plan")
async def plan_experiment(site: Site, caller: Operator, experiment: Fields) -> PlannedExperiment:
    """What the same fields would run and could cost; nothing is kept or started."""
    _id_in(experiment)
    submitted = await _submitted(site, caller, experiment)
    plan = await _bounded(site, submitted, await stored_plan(submitted, site.services.blobs))
    return planned(plan, submitted.entries, notes=submitted.notes)


@router.get("/{experiment}")
async def get_experiment(site: Site, _: Reader, experiment: Id) -> ExperimentStatus:
    """How far an experiment is, and what its runs have spent."""
    return await site.services.experiments().status(experiment)


@router.get(
    "/{experiment}/report",
    response_model=ExperimentReport,
    responses={200: {"content": {kind: {"schema": {"type": "string"}} for kind in FORMS}}},
)
async def get_experiment_report(
    site: Site,
    _: Reader,
    experiment: Id,
    accept: Annotated[
        str,
        Header(
            max_length=400,
            description=f"`{CSV}` or `{NDJSON}` for all trials, `{MARKDOWN}` for people, "
            f"`{SVG}` for the plot.",
        ),
    ] = "",
) -> ExperimentReport | Response:
    """What it found so far: arms, paired differences, thresholds, and where the better arm lost.

    The plot is there (404 otherwise) once an arm has scores.
    """
    found = await read_report(site.services.experiments(), experiment)
    form = next((form for form in FORMS if form in accept), None)
    if form is None:
        return found.report
    named = {"content-disposition": f'attachment; filename="{experiment}.{FORMS[form]}"'}
    return Response(_written(found, form), media_type=form, headers=named)


@router.post("/{experiment}/pause")
async def pause_experiment(site: Site, caller: Operator, experiment: Id) -> ExperimentStatus:
    """Start no further trial; open runs go on."""
    await site.services.experiments().pause(experiment)
    await _note_decision(site, caller, "experiment_paused", experiment)
    return await site.services.experiments().status(experiment)


@router.post("/{experiment}/resume")
async def resume_experiment(
    site: Site, caller: Operator, experiment: Id, body: ResumeBody | None = None
) -> ExperimentStatus:
    """Go on after a pause, a stop or a spent budget; what has ended is not run again.

    A limit also counts for one that runs.
    """
    limits = body or ResumeBody()
    await site.services.experiments().resume(
        experiment, cost_usd=limits.cost_usd, tokens=limits.tokens
    )
    await _note_decision(site, caller, "experiment_resumed", experiment)
    return await site.services.experiments().status(experiment)


@router.post("/{experiment}/stop")
async def stop_experiment(
    site: Site, caller: Operator, experiment: Id, body: StopExperimentBody | None = None
) -> ExperimentStatus:
    """End after the open runs, or `now` with what they have."""
    now = (body or StopExperimentBody()).mode == "now"
    await site.services.experiments().stop(experiment, now=now)
    await _note_decision(site, caller, "experiment_stopped", experiment)
    return await site.services.experiments().status(experiment)


@router.post("/{experiment}/inputs")
async def extend_experiment(
    site: Site, caller: Operator, experiment: Id, body: InputsBody
) -> ExperimentStatus:
    """Run further inputs too; an experiment that has ended goes on with them."""
    experiments = site.services.experiments()
    plan, known = (await experiments.stored(experiment)).plan, await experiments.entries(experiment)
    await _require_folders(site, caller, {"inputs": body.inputs})
    entries = more_entries(body.inputs, plan, known, surroundings=site.surroundings)
    await _require_trust(site, caller, ExperimentSubmission(plan=plan, entries=tuple(entries)))
    await check_added(
        plan,
        entries,
        site.services.models(),
        check=site.services.gateway.check,
        default_model=await _default_model(site),
    )
    await note_requester(site, caller, experiment_source(experiment))
    # Given even where the caller names none: another request may have added inputs since they were
    # read.
    after = len(known) if body.after is None else body.after
    found = await experiments.extend(experiment, entries, after=after)
    await _note_decision(site, caller, "experiment_extended", experiment)
    return found


@router.delete("/{experiment}", status_code=204)
async def delete_experiment(site: Site, caller: Operator, experiment: Id) -> None:
    """Forget an experiment that has ended; its runs stay."""
    await site.services.experiments().delete(experiment)
    await _note_decision(site, caller, "experiment_deleted", experiment)


def _place(told: str | None) -> Place | None:
    if told is None:
        return None
    created_at, _, id = told.partition(" ")
    return Place(datetime.fromisoformat(created_at), id)


async def _note_decision(site: ApiSite, caller: Caller, action: Action, id: str) -> None:
    await site.trail.note_decision(action, experiment_source(id), by=caller.name, run=None)


def _of_another(error: NotAllowed) -> Refused:
    """The refusal of an idempotency key whose id belongs to another experiment."""
    return Refused(
        409,
        "idempotency_conflict",
        f"The idempotency key was used for another experiment. {error.message}",
        cure="Send a new key for a new experiment, or the same body.",
    )


def _id_in(experiment: Mapping[str, JsonValue]) -> str | None:
    """The id that an experiment asks for."""
    wanted = experiment.get("id")
    if wanted is not None and not isinstance(wanted, str):
        raise invalid("id", f"found {format_value(wanted)}; allowed: a text")
    return wanted or None


async def _submitted(
    site: ApiSite, caller: Caller, experiment: Mapping[str, JsonValue]
) -> ExperimentSubmission:
    """Check the whole experiment that was sent."""
    fields = {name: value for name, value in experiment.items() if name != "id"}
    if not isinstance(fields.get("inputs", []), list):
        raise invalid("inputs", "files are not read here; send a list")
    await _require_folders(site, caller, fields)
    submitted = experiment_of(fields, surroundings=site.surroundings)
    await _require_trust(site, caller, submitted)
    return submitted


async def _bounded(site: ApiSite, submitted: ExperimentSubmission, plan: Plan) -> Plan:
    return await bounded(
        plan,
        submitted.entries,
        site.services.models(),
        check=site.services.gateway.check,
        default_model=await _default_model(site),
    )


async def _default_model(site: ApiSite) -> str:
    return await site.services.gateway.default_model() or site.surroundings.default_model


def _written(found: Found, form: str) -> str:
    if form == CSV:
        return csv_of(found.plan, found.trials, found.entries)
    if form == NDJSON:
        return json_lines_of(found.plan, found.trials, found.entries)
    if form == MARKDOWN:
        return markdown(found.report)
    drawn = svg(found.report)
    if drawn is None:
        raise NotFound("No arm has scores to draw yet.", cure="Ask again when trials have ended.")
    return drawn


async def _require_folders(site: ApiSite, caller: Caller, fields: Mapping[str, JsonValue]) -> None:
    # Before anything is read, since reading says whether there is such a folder on this host.
    for folder in sorted(named_folders(fields)):
        await require_served(site, caller, folder)


async def _require_trust(site: ApiSite, caller: Caller, submitted: ExperimentSubmission) -> None:
    """Check that the token could start by itself every task of every arm."""
    entries = submitted.entries
    # An input alone asks for nothing that the arm does not; only fields of its own can.
    telling = [entries[0], *(entry for entry in entries[1:] if entry.fields)]
    for arm in submitted.plan.arms:
        for entry in telling:
            await require_trust(site, caller, trial_task(arm, entry, label=submitted.plan.name))
