"""What people are shown of a call: only where they watch, and never in the way of the call."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from waiting import eventually

from perdure.activities.support import live_text_writer
from perdure.activities.support.live_text_writer import ENDED_KEPT, LiveText, LiveTextWriter
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.budget.allowances import Allowance
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.foundation.retry_policies import PATIENCE, Patience
from perdure.domain.llm.requests import CallContext, ModelRequest
from perdure.domain.run.activity_messages import ModelCallRequest
from perdure.domain.run.live_text import LiveCall

STEP = ModelCallRequest(
    frame="f", iteration=2, model="m", allowance=Allowance(max_tokens=1), worker="reader"
)


def request(key: str = "k") -> ModelRequest:
    context = CallContext(run="r.w1-reader", role="executor", iteration=2, key=key)
    return ModelRequest(model="m", system="", messages=(), max_tokens=1, context=context)


class Watched:
    """Somebody watches; what is written is kept here, and may be refused or held up."""

    def __init__(self) -> None:
        self.written: list[LiveCall] = []
        self.dropped: list[LiveCall] = []
        self.first: list[str] = []
        self.commits = self.looks = 0
        self.fails = self.fails_to_write = False
        self.stands: asyncio.Event | None = None

    async def _open(self) -> None:
        if self.stands is not None:
            await self.stands.wait()
        if self.fails:
            raise StoreAway("The disk is full.")

    async def watched(self) -> dict[str, int]:
        self.looks += 1
        await self._open()
        return {"r": self.looks}

    async def show(self, calls: Sequence[LiveCall]) -> None:
        self.commits += 1
        await self._open()
        if self.fails_to_write:
            raise StoreAway("The disk is full.")
        self.first = self.first or [one.text for one in calls]
        self.written += calls

    async def drop(self, calls: Sequence[LiveCall]) -> None:
        await self._open()
        self.dropped += calls

    async def below(self, run: str) -> Sequence[LiveCall]:
        return self.written

    async def watch(self, run: str) -> None: ...

    async def prune(self) -> None: ...

    def shows(self, text: str) -> bool:
        return bool(self.written) and self.written[-1].text == text


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WRITE_EVERY_S", "LOOK_EVERY_S", "SHOWN_AFTER_END_S"):
        monkeypatch.setattr(live_text_writer, name, 0.01)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    stores = await open_stores(tmp_path, None)
    yield stores
    await stores.close()


async def test_a_watched_call_is_shown_named_ended_and_forgotten(stores: Stores) -> None:
    writer, live = LiveTextWriter(stores.live(), on_failure=pytest.fail), stores.live()

    async def seen(text: str, ended: bool = False) -> bool:
        return [(one.text, one.ended) for one in await live.below("r")] == [(text, ended)]

    await live.watch("r")
    with writer.showing(STEP, request()) as text:
        await eventually(lambda: seen(""))
        text.add("so ")
        await eventually(lambda: seen("so "))
        text.add("far")
        await eventually(lambda: seen("so far"))
        text.add(" \ud83d")
        await eventually(lambda: seen("so far \N{REPLACEMENT CHARACTER}"))
        text.add("\ude00")
        await eventually(lambda: seen("so far \N{GRINNING FACE}"))
        (row,) = await live.below("r")
        facts = (row.run, row.iteration, row.role, row.phase, row.worker, row.model)
        assert facts == ("r.w1-reader", 2, "executor", "executing", "reader", "m")

    async def gone() -> bool:
        return not await live.below("r")

    await eventually(gone)
    await writer.close()


async def test_nothing_is_written_where_nobody_watches() -> None:
    texts = Watched()

    async def nobody() -> dict[str, int]:
        texts.looks += 1
        return {"another": texts.looks}

    texts.watched = nobody  # type: ignore[method-assign]
    writer = LiveTextWriter(texts, on_failure=pytest.fail)
    with writer.showing(STEP, request()) as text:
        text.add("unseen")
        await eventually(lambda: texts.looks > 3)
    assert (texts.commits, texts.dropped) == (0, [])


async def test_a_store_that_stands_holds_up_no_call_and_gets_the_newest_text() -> None:
    """The block awaits nothing, so it ends while the store has not answered at all."""
    texts = Watched()
    texts.stands = asyncio.Event()
    writer = LiveTextWriter(texts, on_failure=pytest.fail)
    with writer.showing(STEP, request("first")) as text:
        text.add("said in time")
        await eventually(lambda: texts.looks)
    assert (texts.looks, texts.written) == (1, []), "the one look stands until now"
    with writer.showing(STEP, request("second")) as text:
        text.add("a")
        text.add("b")
        texts.stands.set()
        await eventually(lambda: texts.shows("ab"))
    assert texts.written[0].text == "ab", "what was passed over on the way is never written"
    await writer.close()


async def test_a_store_that_fails_is_told_of_once_and_fails_no_call() -> None:
    texts = Watched()
    texts.fails = True
    told: list[str] = []
    writer = LiveTextWriter(texts, on_failure=told.append)
    token = PATIENCE.set(patience := Patience())
    try:
        with writer.showing(STEP, request()) as text:
            text.add("said")
            await eventually(lambda: texts.looks > 3)
            assert told == ["The disk is full."]
            texts.fails = False
            await eventually(lambda: texts.shows("said"))
            texts.fails = True
    finally:
        PATIENCE.reset(token)
    assert (patience.total, patience.tried) == (0, 0), "the step waited for nothing"
    await writer.close()


async def test_rounds_that_ask_nothing_of_a_failing_store_do_not_have_it_told_of_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In an outage of a night, a line for each look would bury all others of the log."""
    monkeypatch.setattr(live_text_writer, "LOOK_EVERY_S", 0.1)
    texts, told = Watched(), list[str]()
    texts.fails = True
    writer = LiveTextWriter(texts, on_failure=told.append)
    with writer.showing(STEP, request()):
        await eventually(lambda: texts.looks > 3)
        assert told == ["The disk is full."]
        texts.fails, failed = False, texts.looks
        await eventually(lambda: texts.looks > failed + 1)
        texts.fails = True
        await eventually(lambda: len(told) == 2)
    await writer.close()


async def test_a_write_that_failed_is_made_again() -> None:
    texts = Watched()
    writer = LiveTextWriter(texts, on_failure=lambda _: None)
    with writer.showing(STEP, request()) as text:
        await eventually(lambda: texts.shows(""))
        texts.fails_to_write, tried = True, texts.commits
        text.add("said")
        await eventually(lambda: texts.commits > tried)
        texts.fails_to_write = False
        await eventually(lambda: texts.shows("said"))
    await writer.close()


async def test_calls_at_once_are_one_commit() -> None:
    texts = Watched()
    texts.stands = asyncio.Event()
    writer = LiveTextWriter(texts, on_failure=pytest.fail)
    calls: list[LiveText] = []

    async def call(number: int) -> None:
        with writer.showing(STEP, request(f"k{number}")) as text:
            text.add(f"{number}")
            calls.append(text)
            await eventually(lambda: len(texts.written) >= 20)

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(call(number))
        await eventually(lambda: len(calls) == 20)
        texts.stands.set()
    assert sorted(texts.first) == sorted(f"{number}" for number in range(20))
    await writer.close()


async def test_a_store_that_stands_keeps_no_more_than_some_ends() -> None:
    texts = Watched()
    writer = LiveTextWriter(texts, on_failure=pytest.fail)
    with writer.showing(STEP, request()):
        await eventually(lambda: texts.written)
        texts.stands = asyncio.Event()
        for number in range(3 * ENDED_KEPT):
            with writer.showing(STEP, request(f"{number}")) as text:
                text.add("x")
        assert len(writer._calls) <= ENDED_KEPT + 1
    texts.stands.set()
    await writer.close()


async def test_a_worker_that_ends_takes_its_rows_along() -> None:
    texts = Watched()
    writer = LiveTextWriter(texts, on_failure=pytest.fail)
    with writer.showing(STEP, request()) as text:
        text.add("said")
        await eventually(lambda: texts.shows("said"))
        await writer.close()
    assert [one.run for one in texts.dropped] == ["r.w1-reader"]
