"""The bounded ring of events."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.run.events import CARRIED, RING_SIZE, Ring

NOW = datetime(2026, 5, 4, tzinfo=UTC)


def filled(count: int, ring: Ring | None = None) -> Ring:
    ring = ring or Ring()
    for number in range(count):
        ring = ring.note("decided", at=NOW, run="r", iteration=number)
    return ring


@given(st.integers(0, RING_SIZE + 60))
def test_numbers_have_no_gaps_and_the_ring_is_bounded(count):
    ring = filled(count)
    assert ring.last == count
    assert [event.seq for event in ring.events] == list(
        range(max(1, count - RING_SIZE + 1), count + 1)
    )


@pytest.mark.parametrize(
    ("since", "numbers"), [(0, [1, 2, 3]), (2, [3]), (3, []), (99, [])], ids=str
)
def test_events_after_a_number(since, numbers):
    assert [event.seq for event in filled(3).since(since)] == numbers


def test_counting_goes_on_over_a_roll():
    rolled = filled(100).carried()
    assert (len(rolled.events), rolled.last) == (CARRIED, 100)
    assert filled(1, rolled).events[-1].seq == 101
