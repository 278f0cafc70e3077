"""Fading: by idle weeks from the original, never by how often somebody looked."""

import math
from datetime import datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from remembering import START, learning, learnings, moments

from perdure.domain.memory.ranking import (
    FORGOTTEN_BELOW,
    confidence_left,
    fades_at,
    is_faded,
    recency,
)


@pytest.mark.parametrize(
    ("confidence", "idle", "expected"),
    [
        (0.7, None, 0.7),
        (0.7, 0, 0.7),
        (0.7, 1, 0.7 * math.exp(-0.05)),
        (0.7, 20, 0.7 * math.exp(-1)),
        (1.0, 47, math.exp(-2.35)),
        (0.0, 3, 0.0),
    ],
    ids=["never used", "just used", "a week", "twenty", "gone", "nothing"],
)
def test_confidence_left(confidence: float, idle: int | None, expected: float) -> None:
    used = None if idle is None else START
    entry = learning(confidence=confidence, last_used=used)
    left = confidence_left(entry, START + timedelta(weeks=idle or 500))
    assert left == pytest.approx(expected) if idle != 0 else confidence


@given(learnings(), moments(), moments())
def test_less_is_left_later(entry, one: datetime, other: datetime) -> None:
    early, late = sorted((one, other))
    assert 0 <= confidence_left(entry, late) <= confidence_left(entry, early) <= entry.confidence


@given(learnings(), st.integers(0, 100), st.integers(0, 100))
def test_looking_in_between_changes_nothing(entry, first: int, second: int) -> None:
    used = entry.model_copy(update={"last_used": START})
    confidence_left(used, START + timedelta(weeks=first))
    whole = confidence_left(used, START + timedelta(weeks=first + second))
    assert whole == pytest.approx(entry.confidence * math.exp(-0.05 * (first + second)), abs=1e-12)


@given(learnings(), moments())
def test_the_moment_of_fading_is_when_too_little_is_left(entry, now: datetime) -> None:
    moment = fades_at(entry)
    assume(moment is None or abs(moment - now) > timedelta(seconds=1))
    assume(entry.confidence >= FORGOTTEN_BELOW or now >= entry.created)
    assert is_faded(entry, now) == (moment is not None and now > moment)


def test_what_nobody_used_keeps_its_confidence() -> None:
    assert fades_at(learning(confidence=0.1)) is None
    assert fades_at(learning(confidence=0.09)) == START


@pytest.mark.parametrize(
    ("weeks", "used", "expected"),
    [(0, None, 1.0), (26, None, 0.5), (78, None, 0.25), (78, 78, 1.0), (-5, None, 1.0)],
    ids=["new", "half a year", "old", "just used", "clock behind"],
)
def test_recency(weeks: int, used: int | None, expected: float) -> None:
    last = None if used is None else START + timedelta(weeks=used)
    assert recency(learning(last_used=last), START + timedelta(weeks=weeks)) == expected
