"""Reading one run: its result, costs, transcript, iterations and figures."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound, StoreError
from perdure.domain.foundation.tolerance import read_as
from perdure.domain.run.cost_report import CostReport
from perdure.domain.run.events import Event
from perdure.domain.run.result import RunResult
from perdure.domain.specs import RUN_SPEC, RunSpec
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.explanation import Explanation, explain_run
from perdure.interfaces.rest.callers import Reader, Site, known_run
from perdure.interfaces.rest.error_responses import WrongState
from perdure.interfaces.rest.events import Streams
from perdure.interfaces.rest.metrics import metrics_of
from perdure.interfaces.rest.paging import PAGE, CursorText, Limit, cursors
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.runs import PREFIX
from perdure.interfaces.rest.schemas import (
    Best,
    History,
    Iteration,
    IterationLine,
    Iterations,
    KeptArtifacts,
    RunMetrics,
    Transcript,
)
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.run_references import require_reference
from perdure.interfaces.transcripts import transcript_head

router = APIRouter(prefix=f"{PREFIX}/{{run}}", tags=["one loop"], route_class=BoundedRoute)
Index = Annotated[int, Path(ge=1, le=1_000_000)]


@router.get("/result")
async def result(
    request: Request,
    site: Site,
    caller: Reader,
    run: str,
    wait: Annotated[
        float,
        Query(
            ge=0,
            le=60,
            description="Seconds to wait for the end; such a request counts as a stream.",
            examples=[30],
        ),
    ] = 0,
) -> RunResult:
    """The end of a run, with all records and the whole output; 409 while it goes on."""
    await known_run(site, run)
    if wait:
        streams: Streams = request.app.state.streams
        with streams.taken(caller.token.id):
            ended = await _wait_for_result(request, site, run, wait)
        if ended is not None:
            return ended
    return await _result(site, run)


async def _wait_for_result(
    request: Request, site: ApiSite, run: str, wait: float
) -> RunResult | None:
    """The end of a run, or None if it does not come in time or the client leaves."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    # Otherwise requests that nobody waits for would go on to count.
    ending = asyncio.create_task(site.services.gateway.result(run))
    leaving = asyncio.create_task(left())
    try:
        await asyncio.wait({ending, leaving}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        return ending.result() if ending.done() else None
    finally:
        ending.cancel()
        leaving.cancel()
        # Awaited, so that the place among the streams is free only when nothing works for it.
        await asyncio.gather(ending, leaving, return_exceptions=True)


async def _result(site: ApiSite, run: str) -> RunResult:
    """The end of a run that has ended; the refusal of another names its state."""
    try:
        # Also after a wait: it may have ended at the last moment.
        return await site.services.gateway.result(run, wait=False)
    except NotAllowed as error:
        status = await site.services.gateway.status(run)
        raise WrongState(
            error.message, cure=f"Follow it: GET {PREFIX}/{run}/events", state=status.lifecycle
        ) from error


@router.get("/explanation")
async def explanation(site: Site, _: Reader, run: str) -> Explanation:
    """Why a run stopped, what would have changed it, what more money would likely buy; or 409."""
    await known_run(site, run)
    ended = await _result(site, run)
    records = await site.services.gateway.records(run)
    return explain_run(ended, records or ended.iterations)


@router.get("/specification")
async def specification(site: Site, _: Reader, run: str) -> RunSpec:
    """What the run was started with, all defaults filled in."""
    row = await known_run(site, run)
    if row.spec is None:
        raise NotFound(
            f"The run {run} has no specification yet.",
            cure="Ask again: a worker has to open a run that a Temporal client started.",
        )
    return read_as(RUN_SPEC, await site.services.blobs.get(row.spec))


@router.get("/costs")
async def costs(site: Site, _: Reader, run: str) -> CostReport:
    """What was spent, by phase, model and day, as the journal has it."""
    await known_run(site, run)
    return await site.services.gateway.costs(run)


@router.get("/transcript")
async def transcript(
    site: Site,
    _: Reader,
    run: str,
    iteration: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> Transcript:
    """What was said, up to the last iteration or to a given one."""
    await known_run(site, run)
    # Before the head is looked for, which calls an iteration that is not there wrong input.
    if iteration is not None:
        await _record(site, run, iteration)
    head = await transcript_head(site.services, run, iteration)
    # With the head: once the conversation was compacted, other messages stand at the same places.
    pages = await cursors(site, "transcript", run, head)
    offset = pages.offset(cursor)
    messages = await site.services.transcripts.load(head)
    return Transcript(
        id=run,
        head=head,
        items=messages[offset : offset + limit],
        cursor=pages.after(offset, limit=limit, total=len(messages)),
    )


@router.get("/history")
async def history(
    site: Site, _: Reader, run: str, limit: Limit = PAGE, cursor: CursorText = None
) -> History:
    """The iterations in full: scores, findings, calls, spend."""
    row = await known_run(site, run)
    pages = await cursors(site, "history", run)
    offset = pages.offset(cursor)
    records = await site.services.gateway.records(run)
    return History(
        id=run,
        kind=row.kind,
        items=tuple(records[offset : offset + limit]),
        cursor=pages.after(offset, limit=limit, total=len(records)),
    )


@router.get("/metrics")
async def metrics(site: Site, _: Reader, run: str) -> RunMetrics:
    """The run in figures."""
    await known_run(site, run)
    status = await site.services.gateway.status(run)
    records = await site.services.gateway.records(run)
    return metrics_of(status, records, await site.services.gateway.costs(run))


@router.get("/iterations")
async def iterations(
    site: Site, _: Reader, run: str, limit: Limit = PAGE, cursor: CursorText = None
) -> Iterations:
    """The iterations, one line each; records are written when the step after them runs."""
    await known_run(site, run)
    pages = await cursors(site, "iterations", run)
    offset = pages.offset(cursor)
    records = await site.services.gateway.records(run)
    return Iterations(
        items=tuple(_line(record) for record in records[offset : offset + limit]),
        cursor=pages.after(offset, limit=limit, total=len(records)),
    )


@router.get("/iterations/{iteration}")
async def one_iteration(site: Site, _: Reader, run: str, iteration: Index) -> Iteration:
    """One iteration with what it wrote."""
    await known_run(site, run)
    record = await _record(site, run, iteration)
    return Iteration(record=record, output=await _text(site, record.output_ref))


@router.get("/best")
async def best(site: Site, _: Reader, run: str) -> Best:
    """The best output so far, also of an iteration whose record is not yet written."""
    await known_run(site, run)
    status = await site.services.gateway.status(run)
    if status.best is None:
        raise NotFound(f"The run {run} has no output yet.")
    index = status.best.iteration
    records = await site.services.gateway.records(run)
    record = next((one for one in records if one.index == index), None)
    return Best(
        iteration=index,
        score=status.best.score,
        output=await _text(site, status.best.output_ref),
        dimensions={} if record is None else record.dimensions,
        scores=_scores(status.events, index),
    )


@router.get("/artifacts")
async def artifacts(
    site: Site, _: Reader, run: str, limit: Limit = PAGE, cursor: CursorText = None
) -> KeptArtifacts:
    """What the run kept, in the order of making; `ref` names the content of each."""
    await known_run(site, run)
    pages = await cursors(site, "artifacts", run)
    offset = pages.offset(cursor)
    kept = await site.services.artifacts.artifacts_of_run(run)
    return KeptArtifacts(
        id=run,
        items=tuple(kept[offset : offset + limit]),
        cursor=pages.after(offset, limit=limit, total=len(kept)),
    )


@router.get("/artifacts/{ref}", response_class=Response)
async def artifact(site: Site, _: Reader, run: str, ref: str) -> Response:
    """One thing that the run made, by the reference that its result, a record or a list names."""
    await known_run(site, run)
    await require_reference(site.services, run, ref)
    data = await site.services.blobs.get(ref)
    # A download, never a page: what a model wrote must not run in a browser.
    headers = {"content-disposition": "attachment"}
    return Response(data, media_type="application/octet-stream", headers=headers)


async def _record(site: ApiSite, run: str, index: int) -> IterationRecord:
    records = await site.services.gateway.records(run)
    found = next((record for record in records if record.index == index), None)
    if found is None:
        have = f"1 to {len(records)}" if records else "none yet"
        raise NotFound(f"The run {run} has no iteration {index}.", cure=f"It has {have}.")
    return found


async def _text(site: ApiSite, address: str | None) -> str | None:
    try:
        return None if address is None else await site.services.blobs.get_text(address)
    # The record is shown whatever became of its content, which may be erased or no text.
    except (InvalidInput, NotFound, StoreError):
        return None


def _scores(events: Sequence[Event], iteration: int) -> dict[str, float]:
    """The scores in the newest evaluation event of an iteration."""
    for event in reversed(events):
        given = event.data.get("scores")
        if event.type == "evaluated" and event.iteration == iteration and isinstance(given, dict):
            return {name: float(one) for name, one in given.items() if isinstance(one, int | float)}
    return {}


def _line(record: IterationRecord) -> IterationLine:
    usage = record.usage
    return IterationLine(
        index=record.index,
        decision=record.decision,
        score=record.score,
        findings=len(record.findings),
        error=record.error,
        model=record.model,
        cost_usd=record.cost_usd,
        tokens=usage.counted_tokens(),
        started_at=record.started_at,
        duration_s=record.duration_s,
    )
