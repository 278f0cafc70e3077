"""A call in progress notes what is booked for it if its worker dies now."""

import asyncio

import pytest
from waiting import eventually

from perdure.activities.support import usage_notes
from perdure.activities.support.usage_notes import UsageNotes
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.foundation.retry_policies import PATIENCE, Patience
from perdure.domain.llm.usage import Usage

SLOW_S = 0.3
HEAD = Usage(input_tokens=10, cache_read_tokens=90_000)


async def test_the_prompt_is_noted_as_soon_as_the_provider_told_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that dies in the first second leaves no cached prompt booked at its full price."""
    monkeypatch.setattr(usage_notes, "LOOKS_PER_NOTE", 1_000_000)
    monkeypatch.setattr(usage_notes, "LOOK_EVERY_S", 0.01)
    noted: list[Usage | None] = []
    looks = 0

    async def expects(seen: Usage | None) -> None:
        noted.append(seen)

    def used() -> Usage:
        nonlocal looks
        looks += 1
        return said

    async with UsageNotes(expects) as notes:
        said = Usage()
        notes.answers(used)
        await eventually(lambda: looks > 2)
        assert not noted, "nothing was told yet"
        said = HEAD
        await eventually(lambda: noted)
        said, looks = HEAD.model_copy(update={"output_tokens": 7}), 0
        await eventually(lambda: looks > 2)
    assert noted == [HEAD], "what is streamed after is noted once a second"


def test_a_usage_that_cannot_be_true_is_none_told() -> None:
    async def expects(_: Usage | None) -> None:
        pytest.fail("nothing is noted")

    notes = UsageNotes(expects)
    for tokens, seen in ((10**12, True), (10**20, False), (-1, False)):
        used = Usage(output_tokens=tokens)
        notes.answers(lambda used=used: used)
        assert notes.seen == (used if seen else None)


async def test_ending_a_note_is_no_time_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store may stand before a lock then, with the reply long in hand."""
    monkeypatch.setattr(usage_notes, "LOOK_EVERY_S", 0.01)
    writing = asyncio.Event()

    async def expects(_: Usage | None) -> None:
        writing.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(SLOW_S)

    token = PATIENCE.set(patience := Patience())
    try:
        async with UsageNotes(expects) as notes:
            notes.answers(lambda: HEAD)
            await writing.wait()
    finally:
        PATIENCE.reset(token)
    assert patience.total >= SLOW_S


async def test_a_store_that_is_away_costs_the_note_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_notes, "LOOK_EVERY_S", 0.01)
    tried = 0

    async def expects(_: Usage | None) -> None:
        nonlocal tried
        tried += 1
        raise StoreAway("The disk is full.")

    async with UsageNotes(expects) as notes:
        notes.answers(lambda: HEAD)
        await eventually(lambda: tried)


async def test_a_reply_in_hand_outlives_a_stop_while_a_note_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is paid for: a step that is cancelled just then still has to book and keep it."""
    monkeypatch.setattr(usage_notes, "LOOK_EVERY_S", 0.01)
    writing, ending = asyncio.Event(), asyncio.Event()

    async def expects(_: Usage | None) -> None:
        writing.set()
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.sleep(SLOW_S)

    async def call() -> str:
        async with UsageNotes(expects) as notes:
            notes.answers(lambda: HEAD)
            await writing.wait()
            reply = "said"
        return reply

    calling = asyncio.create_task(call())
    await ending.wait()
    calling.cancel()
    assert await calling == "said"
