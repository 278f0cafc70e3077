"""The page of one run, its live part, and the forms of its actions."""

import asyncio
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import Response
from pydantic import JsonValue

from perdure.domain.run.messages import Receipt
from perdure.interfaces.web.api_calls import ApiProblem, at
from perdure.interfaces.web.differences import Line, differences
from perdure.interfaces.web.run.findings import compared
from perdure.interfaces.web.run.reading import read_iteration, read_run
from perdure.interfaces.web.run.watching import LONGEST_ID, watched
from perdure.interfaces.web.visit import Fields, Here, Visit, once_of, run_path

# `amend`, `erase` and `fork` have routes of their own.
VERBS = frozenset({"pause", "resume", "stop", "retry", "escalate", "input"})
FORBIDDEN, NOT_FOUND = 403, 404
router = APIRouter()


@router.get("/runs/{run}")
async def show(visit: Here, run: str, all: bool = False, answered: str = "") -> Response:
    """Show a run, and which of its questions the visitor has just answered."""
    return await run_page(visit, run, all=all, answered=answered)


@router.get("/runs/{run}/live")
async def live(
    visit: Here,
    run: str,
    all: bool = False,
    last_event_id: Annotated[str | None, Header(max_length=LONGEST_ID)] = None,
) -> Response:
    """Stream the changing part of the page until the run has ended."""
    return await watched(visit, run, all=all, had=last_event_id)


async def run_page(
    visit: Visit,
    run: str,
    *,
    all: bool = False,
    problem: ApiProblem | None = None,
    answered: str = "",
    taken: str = "",
) -> Response:
    """The page of a run, with a refused action, and what was taken of it, shown above it."""
    found = await read_run(visit.api, run, now=visit.site.now(), all=all)
    status_code = problem.status if problem else 200
    return visit.page(
        "run/run.html",
        status_code=status_code,
        found=problem,
        all=all,
        answered=answered[:LONGEST_ID],
        taken=taken,
        **found,
    )


@router.get("/runs/{run}/iterations/{index}")
async def iteration(visit: Here, run: str, index: int) -> Response:
    """Show one iteration with its output and the changes since the one before."""
    found = await read_iteration(visit.api, run, index)
    before = await read_iteration(visit.api, run, index - 1) if index > 1 else None
    changes: tuple[Line, ...] | None = ()
    if before and before.output and found.output:
        # It may take seconds, in which the process must answer others.
        changes = await asyncio.to_thread(differences, before.output, found.output)
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
    """Send one verb with the fields of its form."""
    if verb not in VERBS:
        raise ApiProblem(404, "not_found", "There is no such page.")
    body = {name: fields[name] for name in ("mode", "note", "text") if fields.get(name)}
    return await send_verb(visit, run, verb, {**body}, once=once_of(fields))


async def send_verb(
    visit: Visit,
    run: str,
    verb: str,
    body: dict[str, JsonValue],
    *,
    once: Mapping[str, str],
    taken: str = "",
) -> Response:
    """Send a verb and show the run's page; a refusal is shown on it.

    Args:
        visit: who sends it.
        run: the run's id.
        verb: what the run is to do.
        body: what goes with it.
        once: what makes it one when it is sent twice.
        taken: what of the same form holds even if this is refused.
    """
    try:
        await visit.api.post(f"{at('loops', run)}/{verb}", Receipt, body or None, once)
    except ApiProblem as problem:
        if problem.status in {NOT_FOUND, FORBIDDEN} and not taken:
            raise
        return await run_page(visit, run, problem=problem, taken=taken)
    return visit.go(run_path(run))
