"""Actions on an experiment: more inputs, more money, downloads, deletion."""

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import JsonValue

from perdure.domain.experiments.status import ExperimentStatus
from perdure.interfaces.rest.experiments import FORMS
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.experiments.experiment_form import pasted_or_file, sent_inputs
from perdure.interfaces.web.experiments.report_page import shown
from perdure.interfaces.web.experiments.starting import Uploaded
from perdure.interfaces.web.visit import Fields, Here

VERBS = ("pause", "resume", "stop")
KEPT = ("content-type", "content-disposition")
router = APIRouter()


@router.get("/experiments/{experiment}/report.{ending}")
async def download(visit: Here, experiment: str, ending: str) -> Response:
    """Download the report: all trials as CSV, the text as Markdown, the plot as SVG."""
    accept = next((form for form, name in FORMS.items() if name == ending), None)
    if accept is None:
        raise ApiProblem(404, "not_found", "There is no such page.")
    path = at("experiments", experiment, "report")
    return await visit.api.content(path, keep=KEPT, accept=accept)


@router.post("/experiments/{experiment}/inputs")
async def extend(visit: Here, experiment: str, fields: Fields, file: Uploaded) -> Response:
    """Add inputs; the form holds how many there were, so that sending it twice adds them once."""
    text = fields.get("inputs", "")
    try:
        text = pasted_or_file(text, file)
        known = fields.get("after", "")
        body: JsonValue = {
            "inputs": sent_inputs(text, fields.get("input_form", "auto")),
            "after": int(known) if known.isdecimal() else None,
        }
        await visit.api.post(at("experiments", experiment, "inputs"), ExperimentStatus, body)
    except ApiProblem as problem:
        return await shown(visit, experiment, problem, inputs=text)
    return visit.go(at("experiments", experiment))


@router.get("/experiments/{experiment}/delete")
async def ask(visit: Here, experiment: str) -> Response:
    """Show what would be deleted, with the button."""
    status = await visit.api.get(at("experiments", experiment), ExperimentStatus)
    address = at("experiments", experiment)
    return visit.page("experiments/delete.html", status=status, address=address)


@router.post("/experiments/{experiment}/delete")
async def delete(visit: Here, experiment: str) -> Response:
    """Delete the experiment; its runs stay."""
    try:
        await visit.api.delete(at("experiments", experiment))
    except ApiProblem as problem:
        return await shown(visit, experiment, problem)
    return visit.go("/experiments")


@router.post("/experiments/{experiment}/{verb}")
async def steer(visit: Here, experiment: str, verb: str, fields: Fields) -> Response:
    """Pause, stop, resume, or set the budget, which is a resumption too."""
    if verb not in VERBS:
        raise ApiProblem(404, "not_found", "There is no such page.")
    body: JsonValue = {"mode": "now"} if verb == "stop" and fields.get("now") else None
    if verb == "resume":
        given = {name: fields.get(name, "").strip() for name in ("cost_usd", "tokens")}
        body = {name: limit for name, limit in given.items() if limit} or None
    try:
        await visit.api.post(at("experiments", experiment, verb), ExperimentStatus, body)
    except ApiProblem as problem:
        return await shown(visit, experiment, problem)
    return visit.go(at("experiments", experiment))
