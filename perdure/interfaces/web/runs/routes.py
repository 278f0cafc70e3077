"""The list of runs; the address holds the filters of the API."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from perdure.domain.evaluation.outcomes import Lifecycle, Outcome
from perdure.domain.foundation.names import LoopKind
from perdure.domain.run.control import Phase
from perdure.domain.run.status import RunStatus
from perdure.interfaces.formatting import sparkline
from perdure.interfaces.rest.schemas import Runs
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.visit import BESIDE_S, Fields, Here, Visit, form_of, once_of

FILTERS = ("status", "kind", "outcome", "phase", "label", "text", "definition", "root")
FURTHER = ("outcome", "phase", "label", "definition", "root")
MOST_SCORES = 24
EMPTY = "empty"
NO_CONTENT = 204
VERBS = ("pause", "resume", "stop")
router = APIRouter()


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter with a few values."""

    name: str
    values: tuple[str, ...]


CHOICES = (
    Choice("status", get_args(Lifecycle)),
    Choice("kind", get_args(LoopKind)),
    Choice("outcome", get_args(Outcome)),
    Choice("phase", get_args(Phase)),
)


@dataclass(frozen=True, slots=True)
class Glance:
    """A run's row: scores, the same as bars, and the spent share of its limit."""

    scores: tuple[float | None, ...]
    bars: str
    share: float | None
    limit: Decimal | None


@router.get("/runs")
async def show(request: Request, visit: Here, cursor: str | None = None) -> Response:
    """Show one page of runs; a script gets only the rows."""
    chosen = {name: request.query_params.get(name, "") for name in FILTERS}
    found = await visit.api.get("/loops", Runs, {**chosen, "cursor": cursor})
    named = urlencode(_given(chosen))
    here = f"/runs?{urlencode({**_given(chosen), **_given({'cursor': cursor or ''})})}"
    if visit.wants_part and EMPTY in request.query_params:
        # The page says that there is none; with runs it is another one.
        return Response(
            status_code=NO_CONTENT, headers={"hx-redirect": here} if found.items else {}
        )
    template = "runs/rows.html" if visit.wants_part else "runs/runs.html"
    # The first page has the glances in it for browsers without scripts. A script that refreshes the
    # rows keeps the cells that it already has.
    glances = {} if visit.wants_part else await _glances(visit, [run.id for run in found.items])
    return visit.page(
        template,
        found=found,
        glances=glances,
        chosen=chosen,
        choices=CHOICES,
        here=f"/runs?{named}",
        page_here=here,
        filtered=bool(named),
        further=any(chosen[name] for name in FURTHER),
        verbs=VERBS,
        once=uuid.uuid4().hex,
        report=None,
    )


@router.get("/runs/{run}/glance")
async def glance(visit: Here, run: str) -> Response:
    """The glance of one run: its scores as bars, and its spend against its limit."""
    return visit.page("runs/glance.html", glance=await _glance(visit, run))


@router.post("/runs/{verb}-selected")
async def steer(request: Request, visit: Here, fields: Fields, verb: str) -> Response:
    """Send one verb to several runs, and report each refusal."""
    if verb not in VERBS:
        raise ApiProblem(404, "not_found", "There is no such page.")
    # Not `fields`, which keeps the last of equal names.
    form = await form_of(request)
    ids = [one for one in form.getlist("run") if isinstance(one, str)]
    refused: dict[str, str] = {}
    for run in ids:
        try:
            path = f"{at('loops', run)}/{verb}"
            await visit.api.post(path, dict[str, object], headers=once_of(fields))
        except ApiProblem as problem:
            refused[run] = problem.detail
    if ids and not refused:
        return visit.go(fields.get("here", "/runs"))
    taken = len(ids) - len(refused)
    return visit.page("runs/report.html", verb=verb, taken=taken, refused=refused)


async def _glance(visit: Visit, run: str) -> Glance:
    path = at("loops", run)
    status = await visit.shared(path, lambda: visit.api.get(path, RunStatus), RunStatus)
    budget = status.budget
    limit = budget.limits.cost_usd
    share = float(budget.cost_usd / limit) if limit and budget.cost_usd is not None else None
    scores = tuple(point.score for point in status.trajectory)[-MOST_SCORES:]
    return Glance(scores, sparkline(scores), share, limit)


async def _glances(visit: Visit, runs: Sequence[str]) -> dict[str, Glance]:
    """The glances that can be read in time: an unavailable worker must not delay the list."""
    reading = {run: asyncio.create_task(_glance(visit, run)) for run in runs}
    if not reading:
        return {}
    _, late = await asyncio.wait(reading.values(), timeout=BESIDE_S)
    # A status that is being read is read to its end, for whoever asks for it next.
    for task in late:
        task.cancel()
    answers = await asyncio.gather(*reading.values(), return_exceptions=True)
    return {
        run: answer
        for run, answer in zip(reading, answers, strict=True)
        if isinstance(answer, Glance)
    }


def _given(chosen: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in chosen.items() if value}
