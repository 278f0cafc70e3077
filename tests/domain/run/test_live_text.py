"""Text of calls in flight: what is kept, what a watcher puts together, who counts as watched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_calls import live_call

from perdure.domain.run.live_text import (
    MARKED_CALLS,
    POSITIONS_LENGTH,
    LivePart,
    LiveReading,
    TextEnd,
    Watches,
    newest_text,
)

PIECES = st.lists(st.text(max_size=12), max_size=30)


@given(pieces=PIECES, kept=st.integers(1, 20))
def test_the_end_of_a_text_is_kept_with_what_came_before_counted(
    pieces: list[str], kept: int
) -> None:
    end, whole = TextEnd(kept), ""
    for piece in pieces:
        end.add(piece)
        whole += piece
        assert end.text == whole[-kept:]
        assert (end.start, end.length) == (len(whole) - len(end.text), len(whole))


@given(
    attempts=st.lists(PIECES, min_size=1, max_size=4),
    kept=st.integers(1, 30),
    looks=st.lists(st.booleans(), max_size=80),
    leaves=st.lists(st.booleans(), max_size=80),
)
def test_what_a_watcher_puts_together_is_the_text_with_named_gaps(
    attempts: list[list[str]], kept: int, looks: list[bool], leaves: list[bool]
) -> None:
    """However seldom it looks, whenever it leaves and comes back, and however often the call is
    made again."""
    reading, together = LiveReading(), Together()
    at, going = iter(looks), iter(leaves)
    for number, pieces in enumerate(attempts, start=1):
        end, whole = TextEnd(kept), ""
        for piece in pieces:
            end.add(piece)
            whole += piece
            if next(at, True):
                row = live_call(attempt=number, start=end.start, text=end.text)
                for part in reading.news([row]):
                    together.take(part, whole)
            if next(going, False):
                reading = LiveReading.since(reading.positions)
        last = live_call(attempt=number, start=end.start, text=end.text, ended=True)
        for part in reading.news([last]):
            together.take(part, whole)
        assert together.text[-kept:] == whole[-kept:]
        assert together.attempt == number


class Together:
    """A watcher that holds every part against what the model had said by then."""

    def __init__(self) -> None:
        self.text, self.attempt, self.ended = "", 0, False

    def take(self, part: LivePart, whole: str) -> None:
        if part.type in {"call_started", "call_restarted"}:
            assert (part.type == "call_restarted") == (self.attempt > 0)
            self.text, self.attempt, self.ended = "", part.attempt, False
        assert not self.ended, "nothing follows the end of an attempt"
        if part.type == "text":
            assert part.offset == len(self.text) + part.skipped
            assert whole[part.offset :].startswith(part.text)
            self.text += whole[len(self.text) : part.offset] + part.text
        self.ended = part.type == "call_ended"
        assert part.attempt == self.attempt


def test_each_call_is_named_and_told_on_its_own() -> None:
    reading = LiveReading()
    one = live_call(text="one", role="executor")
    two = live_call("two", run="r.w1-reader", text="two", role="judge", worker="reader")
    told = [(part.type, part.run, part.role, part.text) for part in reading.news([one, two])]
    assert told == [
        ("call_started", "r", "executor", ""),
        ("text", "r", "executor", "one"),
        ("call_started", "r.w1-reader", "judge", ""),
        ("text", "r.w1-reader", "judge", "two"),
    ]
    assert [*reading.news([one, two])] == []


def test_a_call_whose_row_is_gone_has_ended() -> None:
    reading = LiveReading()
    assert [part.type for part in reading.news([live_call(text="so")])] == ["call_started", "text"]
    assert [(part.type, part.offset) for part in reading.news([])] == [("call_ended", 2)]
    assert [*reading.news([])] == []


def test_positions_count_what_was_given_and_no_more() -> None:
    reading = LiveReading()
    row = live_call(text="so far")
    parts = reading.news([row])
    assert next(parts).type == "call_started"
    back = LiveReading.since(reading.positions)
    assert [(part.type, part.text) for part in back.news([row])] == [("text", "so far")]
    ended = row.model_copy(update={"ended": True})
    assert [part.type for part in LiveReading.since(back.positions).news([ended])] == ["call_ended"]


@pytest.mark.parametrize(
    "given",
    [
        "",
        "ended",
        "17",
        ",,",
        "a.b.c",
        f"{'0' * 16}.{'0' * 8}.-1",
        f"{'0' * 16}.{'0' * 8}.{'9' * 13}",
    ],
)
def test_positions_that_are_none_begin_anew(given: str) -> None:
    reading = LiveReading.since(given)
    assert reading.positions == ""
    assert [part.type for part in reading.news([live_call(text="so")])] == ["call_started", "text"]


def test_positions_stay_short() -> None:
    calls = [live_call(f"c{n}", text="x", start=10**11) for n in range(2 * MARKED_CALLS)]
    reading = LiveReading()
    assert len([*reading.news(calls)]) == 2 * len(calls)
    assert len(reading.positions) <= POSITIONS_LENGTH
    assert len(LiveReading.since(reading.positions).positions.split(",")) == MARKED_CALLS


def test_the_newest_text_is_of_the_run_itself_and_in_flight() -> None:
    calls = [
        live_call("a", text="before"),
        live_call("b", text="newest"),
        live_call("c", text="over", ended=True),
        live_call("d", run="r.w1", text="below"),
        live_call("e", text=""),
    ]
    assert newest_text(calls, "r") == "newest"
    assert newest_text(calls[2:4], "r") is None


def test_a_run_is_watched_while_its_number_is_raised() -> None:
    """By the worker's own clock: a number that stands still is of somebody who left or died."""
    watches = Watches(lease_s=30)
    assert not watches.is_watched("r", 0)
    watches.look({"r": 1}, 0)
    assert watches.is_watched("r", 30)
    assert watches.is_watched("r.w1-reader", 30)
    assert not watches.is_watched("r2", 0)
    watches.look({"r": 1}, 31)
    assert not watches.is_watched("r", 31)
    watches.look({"r": 2}, 40)
    assert watches.is_watched("r", 70)
    watches.look({}, 41)
    assert not watches.is_watched("r", 41)
