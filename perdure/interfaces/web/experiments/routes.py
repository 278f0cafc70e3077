"""Experiments: a list with progress, and one with its report, its plot and what can be done."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import JsonValue

from perdure.domain.experiments.status import ExperimentStatus
from perdure.interfaces.experiments.export import svg
from perdure.interfaces.experiments.report import ExperimentReport, Loss
from perdure.interfaces.experiments.words import (
    ESTIMATE,
    arm_cells,
    estimate_cells,
    heading_words,
    judge_words,
    progress_words,
    state_words,
)
from perdure.interfaces.rest.experiments import ExperimentPage
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.visit import Fields, Here, Visit, run_path

VERBS = ("pause", "resume", "stop")
ARM_COLUMNS = ("Score", "95 %", "Passed", "Tokens", "Cost", "Time", "Calls", "Iterations")
SHOWN_LOSSES = 20
router = APIRouter()


@dataclass(frozen=True, slots=True)
class Row:
    """An experiment in the list."""

    address: str
    name: str
    state: str
    progress: str
    share: float
    arms: str


@dataclass(frozen=True, slots=True)
class Arm:
    """A row of the table of arms: its figures under their names, and remarks."""

    name: str
    figures: tuple[tuple[str, str], ...]
    remarks: str


@dataclass(frozen=True, slots=True)
class LossRow:
    """An input where the better arm was worse, with links to its runs and the other's."""

    entry: str
    words: str
    runs: tuple[tuple[str, str], ...]


@router.get("/experiments")
async def show_all(visit: Here, cursor: str = "") -> Response:
    """The list, the newest first."""
    rows, following = await listed(visit, cursor)
    return visit.page("experiments/list.html", rows=rows, following=following)


@router.get("/experiments/{experiment}")
async def show(visit: Here, experiment: str) -> Response:
    """One experiment with its report so far."""
    return await shown(visit, experiment)


@router.get("/experiments/{experiment}/plot.svg")
async def plot(visit: Here, experiment: str) -> Response:
    """The mean best score after each iteration of every arm."""
    drawn = svg(await _report(visit, experiment))
    if drawn is None:
        raise ApiProblem(404, "not_found", "No arm has scores to draw yet.")
    return Response(drawn, media_type="image/svg+xml")


@router.post("/experiments/{experiment}/{verb}")
async def steer(visit: Here, experiment: str, verb: str, fields: Fields) -> Response:
    """Pause, resume or stop it."""
    if verb not in VERBS:
        raise ApiProblem(404, "not_found", "There is no such page.")
    body: JsonValue = {"mode": "now"} if verb == "stop" and fields.get("now") else None
    try:
        await visit.api.post(at("experiments", experiment, verb), ExperimentStatus, body)
    except ApiProblem as problem:
        return await shown(visit, experiment, problem)
    return visit.go(at("experiments", experiment))


async def listed(visit: Visit, cursor: str = "") -> tuple[list[Row], str | None]:
    """A page of experiments, the newest first, and where the next one begins."""
    page = await visit.api.get("/experiments", ExperimentPage, {"cursor": cursor})
    return [_row(one) for one in page.items], page.cursor


async def shown(visit: Visit, experiment: str, found: ApiProblem | None = None) -> Response:
    """The report of one experiment as a page; `found` is what went wrong with what was asked."""
    status = await visit.api.get(at("experiments", experiment), ExperimentStatus)
    report = await _report(visit, experiment)
    return visit.page(
        "experiments/experiment.html",
        status_code=found.status if found else 200,
        found=found,
        status=status,
        report=report,
        heading=heading_words(report),
        state=state_words(status.state, status.reason),
        progress=progress_words(status),
        share=status.ended / status.trials if status.trials else 0.0,
        address=at("experiments", experiment),
        columns=ARM_COLUMNS,
        arms=[_arm(arm_cells(arm)) for arm in report.arms],
        judge=None if report.judge is None else judge_words(report.judge),
        studies=[
            (study.arm, [estimate_cells(one, study) for one in study.estimates])
            for study in report.thresholds
        ],
        estimate=ESTIMATE,
        losses=[_loss(loss) for loss in report.losses[:SHOWN_LOSSES]],
        drawn=any(arm.by_iteration for arm in report.arms),
    )


async def _report(visit: Visit, experiment: str) -> ExperimentReport:
    return await visit.api.get(at("experiments", experiment, "report"), ExperimentReport)


def _row(status: ExperimentStatus) -> Row:
    return Row(
        address=at("experiments", status.id),
        name=status.name,
        state=state_words(status.state, status.reason),
        progress=progress_words(status),
        share=status.ended / status.trials if status.trials else 0.0,
        arms=", ".join(status.arms),
    )


def _arm(cells: Sequence[str]) -> Arm:
    return Arm(cells[0], tuple(zip(ARM_COLUMNS, cells[1:-1], strict=True)), cells[-1])


def _loss(loss: Loss) -> LossRow:
    words = f"{loss.arm} was worse than {loss.against} by {loss.by:.2f}"
    links = tuple((run, run_path(run)) for run in (*loss.runs, *loss.other_runs))
    return LossRow(loss.entry, words, links)
