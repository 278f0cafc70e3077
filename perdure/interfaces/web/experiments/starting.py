"""A new experiment: a form, its plan with the possible cost, then the start."""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Annotated

import yaml
from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from pydantic import JsonValue
from starlette.datastructures import UploadFile

from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.foundation.names import run_id
from perdure.interfaces.experiments.pasted_inputs import INPUT_FORMS
from perdure.interfaces.experiments.planned import PlannedExperiment
from perdure.interfaces.experiments.words import SCORED, planned_rows
from perdure.interfaces.rest.tasks import ReadyTask, ReadyTasks
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.experiments.experiment_form import ExperimentForm
from perdure.interfaces.web.visit import Fields, Here, Visit, form_of, kept_key

router = APIRouter()


async def uploaded(request: Request) -> bytes:
    """The uploaded file; empty if none was chosen."""
    file = (await form_of(request)).get("file")
    if not isinstance(file, UploadFile):
        return b""
    try:
        return await file.read()
    finally:
        await file.close()


Uploaded = Annotated[bytes, Depends(uploaded)]


@router.get("/experiments/new")
async def show_form(visit: Here, task: str = "") -> Response:
    """Show the form, empty or filled from a ready-made task."""
    if not task:
        return await _form(visit, ExperimentForm())
    fields = (await visit.api.get(at("tasks", task), ReadyTask)).fields
    text = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)
    return await _form(visit, ExperimentForm(name=task, task=text))


@router.post("/experiments/new")
async def look_over(visit: Here, fields: Fields, file: Uploaded) -> Response:
    """Show the form again with the plan or the problems; with `start`, start the experiment."""
    form = ExperimentForm.read(fields)
    try:
        form = form.with_file(file)
        # YAML and tables take their time, in which the process must answer others.
        body = await asyncio.to_thread(form.body, await _ready(visit, form))
        if "start" in fields:
            # The form carries the id, so that sending it twice starts one experiment.
            named: dict[str, JsonValue] = {**body, "id": fields.get("id") or _new_id(form)}
            started = await visit.api.post("/experiments", ExperimentStatus, named)
            return visit.go(at("experiments", started.id))
        plan = await visit.api.post("/experiments/plan", PlannedExperiment, body)
    except ApiProblem as problem:
        if problem.status in {401, 429}:
            raise
        return await _form(visit, form, problem=problem, fields=fields)
    return await _form(visit, form, plan=plan, fields=fields)


async def _ready(visit: Visit, form: ExperimentForm) -> dict[str, JsonValue] | None:
    name = await asyncio.to_thread(form.ready_task)
    if name is None:
        return None
    return (await visit.api.get(at("tasks", name), ReadyTask)).fields


def _new_id(form: ExperimentForm) -> str:
    return run_id("experiment", form.name or "experiment", uuid.uuid4().hex)


async def _form(
    visit: Visit,
    form: ExperimentForm,
    *,
    plan: PlannedExperiment | None = None,
    problem: ApiProblem | None = None,
    fields: Mapping[str, str] = {},
) -> Response:
    id = kept_key(fields, problem, name="id")
    return visit.page(
        "experiments/new.html",
        status_code=problem.status if problem else 200,
        form=form,
        plan=plan,
        arms=[] if plan is None else planned_rows(plan),
        scored="" if plan is None else SCORED[plan.scored_by],
        found=problem,
        tasks=(await visit.api.get("/tasks", ReadyTasks)).items,
        input_forms=INPUT_FORMS,
        id=id or _new_id(form),
        unsure=bool(id),
    )
