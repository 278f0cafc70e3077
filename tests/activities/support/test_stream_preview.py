"""A call in progress notes what is booked for it if its worker dies now."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from waiting import eventually

from perdure.activities.support import stream_preview
from perdure.activities.support.stream_preview import LiveText
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.budget.journal import Attempt
from perdure.domain.foundation.retry_policies import PATIENCE, Patience
from perdure.domain.llm.usage import Usage

SLOW_S = 0.3
HEAD = Usage(input_tokens=10, cache_read_tokens=90_000)
ATTEMPT = Attempt(
    key="k",
    attempt=1,
    execution="e",
    root="r",
    run="r",
    phase="execute",
    role="executor",
    iteration=1,
    model="m",
    request_hash="h",
    estimate=Usage(input_tokens=90_010),
    estimate_cost_usd=None,
)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    stores = await open_stores(tmp_path, None)
    yield stores
    await stores.close()


async def test_the_prompt_is_noted_as_soon_as_the_provider_told_it(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies in the first second leaves no cached prompt booked at its full price."""
    monkeypatch.setattr(stream_preview, "BATCHES_PER_NOTE", 1_000_000)
    noted: list[Usage | None] = []

    async def expects(seen: Usage | None) -> None:
        noted.append(seen)

    async with LiveText(stores.records, run="r", attempt=ATTEMPT, expects=expects) as live:
        said = Usage()
        live.answers(lambda: said)
        live.add("so ")
        await eventually(lambda: stores.records.live_text("r"))
        assert not noted, "nothing was told yet"
        said = HEAD
        await eventually(lambda: noted)
        said = HEAD.model_copy(update={"output_tokens": 7})
        live.add("far")
        await eventually(lambda: _shows(stores, "so far"))
    assert noted == [HEAD], "what is streamed after is noted once a second"


async def test_clearing_the_text_of_a_call_is_no_time_of_the_model(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may stand before a lock then, with the reply long in hand."""
    clear = stores.records.clear_live_text

    async def slowly(run: str) -> None:
        await asyncio.sleep(SLOW_S)
        await clear(run)

    monkeypatch.setattr(stores.records, "clear_live_text", slowly)

    async def expects(_: Usage | None) -> None: ...

    token = PATIENCE.set(patience := Patience())
    try:
        async with LiveText(stores.records, run="r", attempt=ATTEMPT, expects=expects) as live:
            live.add("so far")
            await eventually(lambda: _shows(stores, "so far"))
    finally:
        PATIENCE.reset(token)
    assert patience.total >= SLOW_S


async def _shows(stores: Stores, text: str) -> bool:
    return await stores.records.live_text("r") == text
