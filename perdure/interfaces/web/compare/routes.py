"""Comparison of two runs or two iterations: settings, scores, costs and outputs."""

import asyncio
import json
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import JsonValue

from perdure.domain.run.status import RunStatus
from perdure.interfaces.formatting import duration, money, score, tokens
from perdure.interfaces.rest.schemas import Best, Iteration, Runs
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.differences import differences
from perdure.interfaces.web.experiments import routes as experiments
from perdure.interfaces.web.visit import Here, Visit, run_path

SHOWN_EXPERIMENTS = 10
SHOWN_RUNS = 20
MISSING = frozenset({404, 409})
router = APIRouter()
Shape = TypeVar("Shape")


class Side(NamedTuple):
    """One side of the comparison; `iteration` is None for a whole run."""

    run: str
    iteration: int | None
    goal: str
    facts: Mapping[str, str]
    scores: Mapping[str, str]
    settings: Mapping[str, str]
    output: str | None

    @property
    def name(self) -> str:
        """The name shown to people."""
        return f"{self.run}, iteration {self.iteration}" if self.iteration else self.run

    @property
    def address(self) -> str:
        more = ("iterations", str(self.iteration)) if self.iteration else ()
        return run_path(self.run, *more)


class Row(NamedTuple):
    """A row of the table: a name and both values."""

    name: str
    left: str
    right: str

    @property
    def differs(self) -> bool:
        return self.left != self.right


@router.get("/compare")
async def compare(visit: Here, left: str = "", right: str = "", experiment: str = "") -> Response:
    """Compare two sides, each named as `run` or `run:iteration`, or show an experiment's arms.

    Without any of them, show the form.
    """
    if experiment:
        return await experiments.shown(visit, experiment)
    if not left or not right:
        return await _ask(visit, left, right)
    one, two = await asyncio.gather(_side(visit, left), _side(visit, right))
    # It may take seconds, in which the process must answer others.
    changes = await asyncio.to_thread(differences, one.output or "", two.output or "")
    return visit.page(
        "compare/compare.html",
        left=one,
        right=two,
        facts=rows(one.facts, two.facts),
        scores=rows(one.scores, two.scores),
        settings=[row for row in rows(one.settings, two.settings) if row.differs],
        changes=changes,
    )


async def _ask(visit: Visit, left: str, right: str) -> Response:
    """The form, with the newest runs to choose from."""
    found, _ = await experiments.listed(visit)
    runs = (await visit.api.get("/loops", Runs, {"limit": SHOWN_RUNS})).items
    return visit.page(
        "compare/ask.html",
        left=left,
        right=right,
        runs=[one for one in runs if one.id not in {left.strip(), named(left)[0]}],
        experiments=found[:SHOWN_EXPERIMENTS],
    )


def named(text: str) -> tuple[str, int | None]:
    """Split `run:iteration`; a run id that a client chose may contain colons itself."""
    run, colon, index = text.strip().rpartition(":")
    # Longer ones are no iteration, and `int` refuses thousands of digits.
    known = colon and index.isdecimal() and len(index) < 8
    return (run, int(index)) if known else (text.strip(), None)


def rows(left: Mapping[str, str], right: Mapping[str, str]) -> list[Row]:
    """All names of both sides in order, each with both values."""
    names = dict.fromkeys([*left, *right])
    return [Row(name, left.get(name, "–"), right.get(name, "–")) for name in names]


def flat(value: JsonValue, path: str = "") -> dict[str, str]:
    """Settings as lines: each value with its path."""
    if isinstance(value, dict) and value:
        return {
            name: text
            for key, inner in value.items()
            for name, text in flat(inner, f"{path}.{key}" if path else key).items()
        }
    if value is None:
        return {path: "not set"}
    return {path: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


async def _meant(visit: Visit, text: str) -> tuple[str, int | None]:
    """The run and the iteration that a name means; a run of the whole name comes first."""
    run, index = named(text)
    whole = text.strip()
    # A client may have called a run `order:42`.
    if index is None or await _or_none(visit, at("loops", whole), RunStatus) is None:
        return run, index
    return whole, None


async def _side(visit: Visit, text: str) -> Side:
    run, index = await _meant(visit, text)
    path = at("loops", run)
    status = await visit.api.get(path, RunStatus)
    settings = await _or_none(visit, f"{path}/specification", dict[str, JsonValue])
    found = None
    if index is not None:
        found = await visit.api.get(f"{path}/iterations/{index}", Iteration)
    best = await _or_none(visit, f"{path}/best", Best) if found is None else None
    return Side(
        run=run,
        iteration=index,
        goal=status.goal,
        facts=_of_run(status) if found is None else _of_iteration(found),
        scores=_scores(found, best),
        settings=flat({**(settings or {})}),
        output=found.output if found else best.output if best else None,
    )


async def _or_none(visit: Visit, path: str, shape: type[Shape]) -> Shape | None:
    """The answer, or None if there is nothing yet."""
    try:
        return await visit.api.get(path, shape)
    except ApiProblem as problem:
        if problem.status not in MISSING:
            raise
        return None


def _of_run(status: RunStatus) -> dict[str, str]:
    return {
        "State": (status.outcome or status.lifecycle).replace("_", " "),
        "Best score": score(status.best.score if status.best else None),
        "Iterations": str(status.iteration),
        "Cost": money(status.budget.cost_usd),
        "Tokens": tokens(status.budget.tokens),
        "Model calls": str(status.budget.model_calls),
        "Tool calls": str(status.budget.tool_calls),
        "Time": duration(status.elapsed_s),
    }


def _of_iteration(found: Iteration) -> dict[str, str]:
    record = found.record
    return {
        "Decision": record.decision.replace("_", " "),
        "Score": score(record.score),
        "Findings": str(len(record.findings)),
        "Cost": money(record.cost_usd),
        "Tokens": tokens(record.usage.counted_tokens()),
        "Model calls": str(record.model_calls),
        "Tool calls": str(record.tool_calls),
        "Time": duration(record.duration_s),
    }


def _scores(found: Iteration | None, best: Best | None) -> dict[str, str]:
    if best is not None and not best.dimensions:
        return {name: score(value) for name, value in best.scores.items()}
    dimensions = found.record.dimensions if found else best.dimensions if best else {}
    return {name: score(one.score) for name, one in dimensions.items()}
