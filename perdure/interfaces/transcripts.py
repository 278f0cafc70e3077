"""What a run said: the record of an iteration, and its transcript."""

from collections.abc import Sequence

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.services import Services

SHOWN = 8
MANY = 500


async def transcript_head(services: Services, run: str, iteration: int | None) -> str:
    """The head of the transcript up to an iteration, or (None) up to the last one.

    Raises:
        InvalidInput: there is no such iteration.
        NotFound: nothing was said yet.
    """
    records = await services.gateway.records(run)
    if iteration is not None:
        head = _said_in(record_of(records, iteration, run))
    else:
        # The newest that has one: an iteration that failed early may have said nothing.
        heads = [said for record in records if (said := _said_in(record))]
        head = heads[-1] if heads else await _last_transcript(services, run)
    if head is None:
        raise await _nothing_said(services, run)
    return head


async def _nothing_said(services: Services, run: str) -> NotFound:
    """Explain why there is no transcript, and where to read instead.

    Until a run has ended its first iteration, only the runs below it have transcripts.
    """
    rows = await services.records.find_runs(prefix=f"{run}.", limit=MANY)
    below = [row.id for row in rows if row.parent == run]
    row = await services.records.run(run)
    ended = row is not None and row.ended_at is not None
    if below:
        more = f" and {len(below) - SHOWN} more" if len(below) > SHOWN else ""
        shown = ", ".join(f"perdure transcript {child}" for child in sorted(below)[:SHOWN])
        told = "has ended no iteration of its own; the runs that work for it have said something."
        return NotFound(f"{run} {told}", cure=f"Read theirs: {shown}{more}.")
    if ended:
        return NotFound(
            f"{run} has ended without any message.", cure=f"What happened: perdure history {run}."
        )
    return NotFound(
        f"{run} has no transcript yet.", cure=f"Try again later, or follow it: perdure watch {run}."
    )


def _said_in(record: IterationRecord) -> str | None:
    """The transcript of an iteration; with stages, that of the last one that has any."""
    of_stages = [stage.transcript for stage in record.stages if stage.transcript]
    return record.transcript or (of_stages[-1] if of_stages else None)


async def _last_transcript(services: Services, run: str) -> str | None:
    try:
        return (await services.gateway.result(run, wait=False)).transcript
    except NotAllowed:
        return None


def record_of(records: Sequence[IterationRecord], index: int, run: str) -> IterationRecord:
    """The record of an iteration; raises `InvalidInput` if there is none."""
    found = next((record for record in records if record.index == index), None)
    if found is None:
        have = ", ".join(str(record.index) for record in records) or "none"
        raise InvalidInput(f"{run} has no iteration {index}.", cure=f"It has: {have}.")
    return found
