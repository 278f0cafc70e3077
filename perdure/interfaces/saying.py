"""What a run said: the record of an iteration, and the transcript to read."""

from collections.abc import Sequence

from perdure.domain.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.result import IterationRecord
from perdure.interfaces.services import Services


async def transcript_head(services: Services, run: str, iteration: int | None) -> str:
    """The head of what was said in an iteration, or (None) up to the last one.

    Raises:
        InvalidInput: there is no such iteration.
        NotFound: nothing was said yet.
    """
    records = await services.gateway.records(run)
    if iteration is not None:
        head = record_of(records, iteration, run).transcript
    else:
        heads = [record.transcript for record in records if record.transcript]
        head = heads[-1] if heads else await _last_transcript(services, run)
    if head is None:
        raise NotFound(
            f"{run} has no transcript yet.", cure=f"Look again, or `perdure watch {run}`."
        )
    return head


async def _last_transcript(services: Services, run: str) -> str | None:
    try:
        return (await services.gateway.result(run, wait=False)).transcript
    except NotAllowed:
        return None


def record_of(records: Sequence[IterationRecord], index: int, run: str) -> IterationRecord:
    """The record of one iteration; raises `InvalidInput` when there is none."""
    found = next((record for record in records if record.index == index), None)
    if found is None:
        have = ", ".join(str(record.index) for record in records) or "none"
        raise InvalidInput(f"{run} has no iteration {index}.", cure=f"It has: {have}.")
    return found
