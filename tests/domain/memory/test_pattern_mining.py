"""Patterns at their exact borders, and that neither order nor repetition of events matters."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.memory.deduplication import merged
from perdure.domain.memory.entries import Event, Origin, Pattern
from perdure.domain.memory.patterns import certainty, mined, proposable

START = datetime(2026, 3, 2, 0, 0, tzinfo=UTC)
NOW = START + timedelta(days=60)


def event(number: int, category: str | None, hours: float, outcome: Outcome = "accepted") -> Event:
    return Event(
        kind="event",
        id=f"e{number}",
        category=category,
        created=START + timedelta(hours=hours),
        origins=(Origin(run=f"run-{number}", outcome=outcome),),
        outcome=outcome,
    )


def events(*given: tuple[str | None, float]) -> list[Event]:
    return [event(number, *one) for number, one in enumerate(given)]


def found(given: Sequence[Event]) -> set[tuple[str, tuple[str, ...], int]]:
    return {(item.sort, item.subject, item.seen) for item in mined(given, now=NOW)}


DAY = 24.0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([], set(), id="nothing"),
        pytest.param([("a", 0), ("a", 30)], set(), id="twice"),
        pytest.param([("a", 0), ("a", 31), ("a", 65)], {("category", ("a",), 3)}, id="three times"),
        pytest.param([(None, 0)] * 3, set(), id="without a category"),
        pytest.param(
            [("a", 9), ("a", 9 + DAY), ("a", 9 + 2 * DAY)],
            {("category", ("a",), 3), ("hour", ("a", "09:00 UTC"), 3)},
            id="always at nine",
        ),
        pytest.param(
            [("a", 9 + n * DAY) for n in range(3)] + [("a", 10 + n + n * DAY) for n in range(7)],
            {("category", ("a",), 10)},
            id="three of ten is not over 30 %",
        ),
        pytest.param(
            [("a", 9 + n * DAY) for n in range(3)] + [("a", 10 + n + n * DAY) for n in range(6)],
            {("category", ("a",), 9), ("hour", ("a", "09:00 UTC"), 3)},
            id="three of nine is",
        ),
        pytest.param(
            [(name, n * 31 + after) for n in range(3) for name, after in (("a", 0), ("b", 2))],
            {("category", ("a",), 3), ("category", ("b",), 3), ("pair", ("a", "b"), 3)},
            id="a pair within exactly two hours",
        ),
        pytest.param(
            [(name, n * 31 + after) for n in range(3) for name, after in (("a", 0), ("b", 2.01))],
            {("category", ("a",), 3), ("category", ("b",), 3)},
            id="too far apart",
        ),
        pytest.param(
            [
                (name, n * 31 + after)
                for n in range(3)
                for name, after in (("a", 0), ("c", 0.5), ("b", 1))
            ],
            {
                *(("category", (name,), 3) for name in "abc"),
                *(("pair", pair, 3) for pair in (("a", "c"), ("c", "b"))),
            },
            id="only what follows directly",
        ),
    ],
)
def test_what_is_found(
    given: list[tuple[str | None, float]], expected: set[tuple[str, tuple[str, ...], int]]
) -> None:
    assert found(events(*given)) == expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("seen", "accepted", "certain"),
    [
        pytest.param(0, 0, 0.0, id="nothing"),
        pytest.param(3, 3, 0.75, id="three accepted"),
        pytest.param(3, 2, 0.625, id="two of three"),
        pytest.param(9, 5, 0.7, id="exactly at the border"),
        pytest.param(9, 0, 0.45, id="never accepted"),
    ],
)
def test_certainty(seen: int, accepted: int, certain: float) -> None:
    assert certainty(seen, accepted) == certain


def test_failing_work_is_no_proposal() -> None:
    given = [
        event(0, "a", 0, "accepted"),
        event(1, "a", 31, "regressed"),
        event(2, "a", 62, "failed"),
    ]
    (pattern,) = mined(given, now=NOW)
    assert not proposable(pattern)
    assert pattern.text == "“a” came up 3 times. 1 of them was accepted."


def test_what_a_person_said_of_a_pattern_stays() -> None:
    first, later = (
        next(iter(mined(events(*[("a", n * 31) for n in range(count)]), now=NOW)))
        for count in (3, 5)
    )
    known = first.model_copy(update={"state": "rejected"})
    again = merged(known, later)
    assert isinstance(again, Pattern)
    assert (again.state, again.seen, again.confidence) == ("rejected", 5, later.confidence)
    assert again.id == first.id == later.id


OUTCOMES: list[Outcome] = ["accepted", "best_effort", "failed"]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]), st.floats(0, 24 * 20), st.sampled_from(OUTCOMES)
    ),
    max_size=40,
).map(lambda given: [event(n, *one) for n, one in enumerate(given)])


@given(EVENTS, st.randoms(use_true_random=False))
def test_order_and_repetition_change_nothing(given: list[Event], luck: object) -> None:
    shuffled = [*given, *given]
    luck.shuffle(shuffled)  # type: ignore[attr-defined]
    assert mined(shuffled, now=NOW) == mined(given, now=NOW)


@given(EVENTS)
def test_every_pattern_was_seen_three_times_and_is_named_once(given: list[Event]) -> None:
    patterns: Sequence[Pattern] = mined(given, now=NOW)
    assert all(pattern.seen >= 3 for pattern in patterns)
    assert len({pattern.id for pattern in patterns}) == len(patterns)
    for pattern in patterns:
        known = [event.origins[0] for event in given]
        assert all(origin in known for origin in pattern.origins)


@given(st.integers(1, 200), st.integers(0, 200))
def test_certainty_grows_with_what_was_accepted(seen: int, accepted: int) -> None:
    accepted = min(accepted, seen)
    assert 0 < certainty(seen, accepted) < 1
    assert certainty(seen + 1, accepted + 1) >= certainty(seen, accepted)
