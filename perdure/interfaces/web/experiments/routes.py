"""Experiments: the list with progress, and the page of one with its report and plot."""

from dataclasses import dataclass

from fastapi import APIRouter
from fastapi.responses import Response

from perdure.domain.experiments.status import ExperimentStatus
from perdure.interfaces.experiments.words import progress_words, state_words
from perdure.interfaces.rest.experiments import ExperimentPage
from perdure.interfaces.web.api_calls import at
from perdure.interfaces.web.experiments.report_page import shown
from perdure.interfaces.web.visit import Here, Visit

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


@router.get("/experiments")
async def show_all(visit: Here, cursor: str = "") -> Response:
    """Show the list, newest first."""
    rows, following = await listed(visit, cursor)
    return visit.page("experiments/list.html", rows=rows, following=following)


@router.get("/experiments/{experiment}")
async def show(visit: Here, experiment: str) -> Response:
    """Show one experiment with its report so far."""
    return await shown(visit, experiment)


async def listed(visit: Visit, cursor: str = "") -> tuple[list[Row], str | None]:
    """A page of experiments, newest first, and the cursor of the next page."""
    page = await visit.api.get("/experiments", ExperimentPage, {"cursor": cursor})
    return [_row(one) for one in page.items], page.cursor


def _row(status: ExperimentStatus) -> Row:
    return Row(
        address=at("experiments", status.id),
        name=status.name,
        state=state_words(status.state, status.reason),
        progress=progress_words(status) if status.trials else status.problem,
        share=status.ended / status.trials if status.trials else 0.0,
        arms=", ".join(status.arms),
    )
