"""Reads from the API what the page of a run shows; it depends only on the visitor's permissions."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from operator import itemgetter

from pydantic import JsonValue

from perdure.domain.evaluation.outcomes import retry_helps
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.cost_report import CostLine, CostReport
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import BudgetStatus, RunStatus
from perdure.domain.specs import RUN_SPEC, Spec
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.types import OpenGate
from perdure.interfaces.explanation import Explanation
from perdure.interfaces.rest.schemas import History, Iteration
from perdure.interfaces.web.api_calls import Api, ApiProblem, at
from perdure.interfaces.web.inbox.cards import cards_of
from perdure.interfaces.web.run.score_plot import Point, score_plot
from perdure.interfaces.web.run.sentence import elapsed, now_sentence

SHOWN = 30
HALF = 0.5
NOT_FOUND, CONFLICT = 404, 409


async def read_run(api: Api, run: str, *, now: datetime, all: bool = False) -> dict[str, object]:
    """Read the values for `run/now.html`.

    Args:
        api: the API in a visitor's name; only the permissions affect the answer.
        run: the run's id.
        now: to count times from.
        all: include every iteration, not only the newest ones.
    """
    path = at("loops", run)
    status = await api.get(path, RunStatus)
    records, costs, spec, ended = await asyncio.gather(
        # All of them, although few are shown: the plot has every score, and the best may be any.
        read_records(api, run),
        api.get(f"{path}/costs", CostReport),
        _specification(api, run),
        _ended(api, run) if status.outcome else _nothing(),
    )
    result, explanation = ended or (None, None)
    picked = status.best.iteration if status.best else None
    asked = [
        OpenGate(run=run, kind=status.kind, goal=status.goal, gate=gate) for gate in status.gates
    ]
    retryable = result is not None and retry_helps(result.outcome, result.reason, result.error)
    return {
        "status": status,
        "sentence": now_sentence(status),
        "elapsed_s": elapsed(status, now),
        "scarce": scarcest(status.budget),
        "result": result,
        "explanation": explanation,
        "retryable": retryable,
        "records": tuple(reversed(records))[: None if all else SHOWN],
        "more": 0 if all else max(0, len(records) - SHOWN),
        "best": next((one for one in records if one.index == picked), None),
        "output": await _best_output(api, status, result),
        "output_ref": _output_ref(records, picked),
        "plot": score_plot(_points(records), threshold_of(spec)),
        "costs": costs,
        "shares": shares(costs),
        "gates": await cards_of(api, asked, now=now, known={run: status}),
    }


async def read_records(api: Api, run: str) -> list[IterationRecord]:
    """The records of all iterations, the oldest first."""
    pages = await api.pages(f"{at('loops', run)}/history", History)
    return [record for page in pages for record in page.items]


async def _ended(api: Api, run: str) -> tuple[RunResult, Explanation] | None:
    """The result and the explanation; None if the run was continued just now."""
    path = at("loops", run)
    try:
        return await asyncio.gather(
            api.get(f"{path}/result", RunResult),
            api.get(f"{path}/explanation", Explanation),
        )
    except ApiProblem as problem:
        if problem.status != CONFLICT:
            raise
        return None


async def _nothing() -> None:
    return None


async def _specification(api: Api, run: str) -> Spec | None:
    """The specification; None until a worker has opened it."""
    try:
        found = await api.get(f"{at('loops', run)}/specification", dict[str, JsonValue])
    except ApiProblem as problem:
        if problem.status != NOT_FOUND:
            raise
        return None
    return RUN_SPEC.validate_python(found)


async def read_iteration(api: Api, run: str, index: int) -> Iteration:
    """One iteration with what it wrote."""
    return await api.get(at("loops", run, "iterations", str(index)), Iteration)


async def _best_output(api: Api, status: RunStatus, result: RunResult | None) -> str | None:
    """The best output so far, in full."""
    if result is not None:
        return result.output
    if status.best is None:
        return None
    try:
        return (await read_iteration(api, status.id, status.best.iteration)).output
    except ApiProblem as problem:
        if problem.status != NOT_FOUND:
            raise
        return None  # the record of an iteration is written only with the next step


def _output_ref(records: Sequence[IterationRecord], picked: int | None) -> str | None:
    """The reference of the best output; where nothing was scored, of the last one."""
    of = [one for one in records if picked is None or one.index == picked]
    return next((one.output_ref for one in reversed(of) if one.output_ref), None)


def scarcest(budget: BudgetStatus) -> str:
    """The limit that is closest to being spent, in words; empty below half of it."""
    limits = budget.limits
    used = {
        "money": _of(budget.cost_usd, limits.cost_usd),
        "tokens": _of(budget.tokens, limits.tokens),
        "model calls": _of(budget.model_calls, limits.model_calls),
        "tool calls": _of(budget.tool_calls, limits.tool_calls),
        "working time": _of(budget.active_time_s, limits.active_time),
    }
    name, most = max(used.items(), key=itemgetter(1))
    return name if most >= HALF else ""


def _of(used: Decimal | float | None, limit: Decimal | float | None) -> float:
    return float(used) / float(limit) if used and limit else 0.0


def threshold_of(spec: Spec | None) -> float | None:
    """The score that the run aims at; None if its kind has none."""
    return spec.refine.success_threshold if isinstance(spec, RefineSpec) else None


def shares(costs: CostReport) -> dict[str, dict[str, float]]:
    """The share of each phase and model in the total, largest first.

    By money, or by tokens if no price is known.
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
