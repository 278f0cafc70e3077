"""A stopped run leaves a failing provider alone: what fails after the stop is not asked again."""

import pytest
from installation import Installation
from steered import LIST, spec
from waiting import eventually

from perdure.domain.run.messages import Stop

# Its tokens outgrow the reservation, so the workflow itself waits before the next try.
OVERLOADED = {
    "error": {"status": 529, "retry_after": 3_600},
    "usage": {"input_tokens": 400, "output_tokens": 900},
}
PRICE = {"input_per_million": 3, "output_per_million": 15}


async def _stopped(site: Installation, replies: list[object], **changes: object) -> list[str]:
    """What came of each attempt of a run that was stopped at its first failure."""
    run = await site.start(
        spec(budget={"cost_usd": 100}, **changes), {"price": PRICE, "replies": replies}
    )
    rows = site.parts.stores.journal.rows

    async def failed() -> bool:
        return any(row.state == "failed" for row in await rows(run))

    await eventually(failed)
    await site.gateway.verb(run, Stop(by="me"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("stopped", "stopped")
    return [row.state for row in await rows(run)]


@pytest.mark.long
async def test_nothing_is_asked_where_nothing_was_found(site: Installation) -> None:
    assert await _stopped(site, [{**OVERLOADED, "times": 20}]) == ["failed"]


@pytest.mark.long
async def test_the_closing_text_has_one_try(site: Installation) -> None:
    states = await _stopped(site, [LIST, {**OVERLOADED, "times": 20}])
    assert states == ["answered", "failed", "failed"]
    closed = await _stopped(site, [LIST, OVERLOADED, {"text": "what I found"}])
    assert closed == ["answered", "failed", "answered"]
