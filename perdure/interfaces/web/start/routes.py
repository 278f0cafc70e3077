"""The form of a new run: show the plan with the worst cost, then start the run once."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from fastapi.responses import Response

from perdure.domain.llm.attachments import size_in_words
from perdure.domain.roles.definition import text_of
from perdure.domain.run.loop_api import LoopParameter
from perdure.interfaces.plan import RunPlan
from perdure.interfaces.rest.definitions import DefinitionLine, Definitions
from perdure.interfaces.rest.schemas import Started
from perdure.interfaces.rest.tasks import ReadyTask, ReadyTasks
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.start.files import (
    Chosen,
    as_inputs,
    file_name,
    kept_words,
    most_bytes,
    now_kept,
)
from perdure.interfaces.web.start.groups import limit_words, open_groups
from perdure.interfaces.web.start.task_form import TaskForm
from perdure.interfaces.web.visit import Fields, Here, Visit, kept_key, run_path

ACCEPTED = ".png,.jpg,.jpeg,.gif,.webp,.pdf,.txt,.md,.csv,.json,.yaml,text/*"
router = APIRouter()


@router.get("/new")
async def show(
    visit: Here, goal: str = "", kind: str = "refine", definition: str = "", task: str = ""
) -> Response:
    """Show the form, empty or filled from a ready-made task."""
    if task:
        found = await visit.api.get(at("tasks", task), ReadyTask)
        return await _form(visit, TaskForm.of(found))
    return await _form(visit, TaskForm(goal=goal, kind=kind, definition=definition))


@router.post("/new")
async def look_over(visit: Here, fields: Fields, files: Chosen) -> Response:
    """Show the form again with the plan or the problems; with `start`, start the run."""
    form = TaskForm.read(fields)
    form = form.for_loop(await _takes(visit, form.definition))
    if "fields" in fields:
        return await _form(visit, form, lost=[file_name(name) for name, _ in files], fields=fields)
    lost = [file_name(name) for name, _ in files]
    try:
        limit = most_bytes(visit.site.rules.body_bytes)
        taken = as_inputs(files, taken=form.input_names, limit=limit)
        form, lost = form.with_files(taken), taken.names
        # YAML takes its time, in which the process must answer others.
        task = await asyncio.to_thread(form.task)
        if "start" in fields:
            # The form carries the key, so that sending it twice starts one run.
            key = fields.get("key") or uuid.uuid4().hex
            once = {"idempotency-key": key}
            started = await visit.api.post("/loops", Started, task, headers=once)
            return visit.go(run_path(started.id))
        plan = await visit.api.post("/loops/plan", RunPlan, task)
    except ApiProblem as problem:
        if problem.status in {401, 429}:
            raise
        return await _form(visit, form, problem=problem, lost=lost, fields=fields)
    kept = now_kept(plan.inputs, {*form.kept, *form.contents})
    form = form.model_copy(update={"kept": kept, "contents": {}})
    return await _form(visit, form, plan=plan, fields=fields)


async def _takes(visit: Visit, definition: str) -> tuple[LoopParameter, ...]:
    """The parameters of a loop; empty if the loop does not exist."""
    if not definition:
        return ()
    found = await _definitions(visit)
    return next((one.takes for one in found if one.name == definition), ())


async def _definitions(visit: Visit) -> list[DefinitionLine]:
    pages = await visit.api.pages("/loops/definitions", Definitions)
    return [line for page in pages for line in page.items]


async def _form(
    visit: Visit,
    form: TaskForm,
    *,
    plan: RunPlan | None = None,
    problem: ApiProblem | None = None,
    lost: Sequence[str] = (),
    fields: Mapping[str, str] = {},
) -> Response:
    key = kept_key(fields, problem)
    definitions = await _definitions(visit)
    tasks = (await visit.api.get("/tasks", ReadyTasks)).items
    ready = next((one for one in tasks if one.name == form.ready), None)
    base = TaskForm()
    if ready is not None:
        base = TaskForm.of(await visit.api.get(at("tasks", ready.name), ReadyTask))
    return visit.page(
        "start/start.html",
        status_code=problem.status if problem else 200,
        form=form,
        plan=plan,
        found=problem,
        definitions=definitions,
        tasks=tasks,
        ready=ready,
        key=key or uuid.uuid4().hex,
        unsure=bool(key),
        takes=next((one.takes for one in definitions if one.name == form.definition), ())
        if form.kind == "roles"
        else (),
        texts=text_of,
        kept=kept_words(form.kept),
        lost=lost,
        opened=open_groups(form, base=base, problem=problem, lost=bool(lost)),
        limits=limit_words(form),
        most=size_in_words(most_bytes(visit.site.rules.body_bytes)),
        accepted=ACCEPTED,
    )
