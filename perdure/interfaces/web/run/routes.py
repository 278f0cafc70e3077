"""The page of one run, its live parts, and the forms that steer it."""

import asyncio
from collections.abc import Sequence
from operator import itemgetter

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import JsonValue
from starlette.types import Receive, Scope, Send

from perdure.domain.evaluation.outcomes import retry_helps
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.cost_report import CostLine, CostReport
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Receipt
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.domain.specs import RUN_SPEC, Spec
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.types import OpenGate
from perdure.interfaces.explanation import Explanation
from perdure.interfaces.rest.schemas import History, Iteration
from perdure.interfaces.web.api_calls import API, ApiProblem, admitted, at
from perdure.interfaces.web.differences import Line, differences
from perdure.interfaces.web.inbox.cards import cards_of
from perdure.interfaces.web.run.findings import compared
from perdure.interfaces.web.run.score_plot import Point, score_plot
from perdure.interfaces.web.run.sentence import elapsed, now_sentence
from perdure.interfaces.web.visit import Fields, Here, Visit, api_of, run_path

VERBS = frozenset({"pause", "resume", "stop", "retry", "escalate", "input"})
SHOWN = 30
FORBIDDEN, NOT_FOUND, CONFLICT = 403, 404, 409
router = APIRouter()


@router.get("/runs/{run}")
async def show(visit: Here, run: str, all: bool = False) -> Response:
    """All of a run; a script asks for the part that changes."""
    return await run_page(visit, run, all=all)


async def run_page(
    visit: Visit, run: str, *, all: bool = False, problem: ApiProblem | None = None
) -> Response:
    """The page of a run, and above it what was refused."""
    path = at("loops", run)
    status = await visit.api.get(path, RunStatus)
    records, costs, spec, ended = await asyncio.gather(
        _records(visit, run),
        visit.api.get(f"{path}/costs", CostReport),
        _specification(visit, run),
        _ended(visit, run) if status.outcome else _nothing(),
    )
    result, explanation = ended or (None, None)
    picked = status.best.iteration if status.best else None
    return visit.page(
        "run/now.html" if visit.wants_part else "run/run.html",
        status_code=problem.status if problem else 200,
        found=problem,
        status=status,
        sentence=now_sentence(status),
        elapsed_s=elapsed(status, visit.site.now()),
        result=result,
        explanation=explanation,
        retryable=result is not None and retry_helps(result.outcome, result.reason, result.error),
        records=tuple(reversed(records))[: None if all else SHOWN],
        more=0 if all else max(0, len(records) - SHOWN),
        best=next((one for one in records if one.index == picked), None),
        output=await _best_output(visit, status, result),
        plot=score_plot(_points(records), threshold_of(spec)),
        costs=costs,
        shares=shares(costs),
        gates=await cards_of(
            visit.api,
            [
                OpenGate(run=run, kind=status.kind, goal=status.goal, gate=one)
                for one in status.gates
            ],
            now=visit.site.now(),
            known={run: status},
        ),
    )


@router.get("/runs/{run}/iterations/{index}")
async def iteration(visit: Here, run: str, index: int) -> Response:
    """One iteration with what it wrote, and how that differs from the one before."""
    found = await _iteration(visit, run, index)
    before = await _iteration(visit, run, index - 1) if index > 1 else None
    changes: tuple[Line, ...] | None = ()
    if before and before.output and found.output:
        changes = differences(before.output, found.output)
    return visit.page(
        "run/iteration_part.html" if visit.wants_part else "run/iteration.html",
        run=run,
        record=found.record,
        findings=compared(found.record.findings, before and before.record.findings),
        output=found.output,
        changes=changes,
        compared=before is not None and bool(before.output) and bool(found.output),
    )


@router.post("/runs/{run}/{verb}")
async def steer(visit: Here, fields: Fields, run: str, verb: str) -> Response:
    """One verb, with what its form says."""
    if verb not in VERBS:
        raise ApiProblem(404, "not_found", "There is no such page.")
    body = {name: fields[name] for name in ("mode", "note", "text") if fields.get(name)}
    return await sent(visit, run, verb, {**body})


async def sent(visit: Visit, run: str, verb: str, body: dict[str, JsonValue]) -> Response:
    """The run's page after a verb; a refusal is told on it."""
    try:
        await visit.api.post(f"{at('loops', run)}/{verb}", Receipt, body or None)
    except ApiProblem as problem:
        if problem.status in {NOT_FOUND, FORBIDDEN}:
            raise
        return await run_page(visit, run, problem=problem)
    return visit.go(run_path(run))


class Forwarded(Response):
    """What the API answers at a path, passed on as it comes; for streams."""

    def __init__(self, visit: Visit, path: str) -> None:
        super().__init__()
        self._app = admitted(api_of(visit.request), visit.visitor.token)
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the API answer."""
        raw = self._path.encode()
        asked = {**scope, "path": self._path, "raw_path": raw, "query_string": b""}
        await self._app(
            {name: asked[name] for name in asked if name not in _OF_ROUTE}, receive, send
        )


_OF_ROUTE = frozenset({"app", "route", "router", "endpoint", "path_params", "state"})


@router.get("/runs/{run}/live")
async def live(visit: Here, run: str) -> Response:
    """The run's events, as the API streams them."""
    return Forwarded(visit, f"{API}{at('loops', run)}/events")


async def _records(visit: Visit, run: str) -> list[IterationRecord]:
    found: list[IterationRecord] = []
    cursor: str | None = None
    while True:
        page = await visit.api.get(
            f"{at('loops', run)}/history", History, {"limit": 200, "cursor": cursor}
        )
        found += page.items
        if (cursor := page.cursor) is None:
            return found


async def _ended(visit: Visit, run: str) -> tuple[RunResult, Explanation] | None:
    """How a run ended, and why; None where it was continued just now."""
    path = at("loops", run)
    try:
        return await asyncio.gather(
            visit.api.get(f"{path}/result", RunResult),
            visit.api.get(f"{path}/explanation", Explanation),
        )
    except ApiProblem as problem:
        if problem.status != CONFLICT:
            raise
        return None


async def _nothing() -> None:
    return None


async def _specification(visit: Visit, run: str) -> Spec | None:
    """What the run was started with; None while no worker has opened it."""
    try:
        found = await visit.api.get(f"{at('loops', run)}/specification", dict[str, JsonValue])
    except ApiProblem as problem:
        if problem.status != NOT_FOUND:
            raise
        return None
    return RUN_SPEC.validate_python(found)


async def _iteration(visit: Visit, run: str, index: int) -> Iteration:
    return await visit.api.get(at("loops", run, "iterations", str(index)), Iteration)


async def _best_output(visit: Visit, status: RunStatus, result: RunResult | None) -> str | None:
    """The best output so far, whole."""
    if result is not None:
        return result.output
    if status.best is None:
        return None
    try:
        return (await _iteration(visit, status.id, status.best.iteration)).output
    except ApiProblem as problem:
        if problem.status != NOT_FOUND:
            raise
        return None  # its record is written with the step after it


def threshold_of(spec: Spec | None) -> float | None:
    """The score that a run aims at, where its kind has one."""
    return spec.refine.success_threshold if isinstance(spec, RefineSpec) else None


def shares(costs: CostReport) -> dict[str, dict[str, float]]:
    """Of each sum its share of the whole, the largest first.

    By money, or by tokens where no price is known.
    """
    return {
        name: dict(
            sorted(
                ((key, _share(line, costs.total)) for key, line in lines.items()),
                key=itemgetter(1),
                reverse=True,
            )
        )
        for name, lines in (("phase", costs.by_phase), ("model", costs.by_model))
    }


def _share(line: CostLine, total: CostLine) -> float:
    if line.cost_usd is not None and total.cost_usd:
        return float(line.cost_usd / total.cost_usd)
    tokens = total.usage.counted_tokens()
    return line.usage.counted_tokens() / tokens if tokens else 0.0


def _points(records: Sequence[IterationRecord]) -> list[Point]:
    return [Point(one.index, one.score, one.decision) for one in records if one.score is not None]


def _gate(status: RunStatus, gate: Gate) -> OpenGate:
    return OpenGate(run=status.id, kind=status.kind, goal=status.goal, gate=gate)
