"""When results that stopped changing end a run, and when they must not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.delegation.spec import StallSettings
from perdure.domain.delegation.stall import (
    Measurement,
    Progress,
    after_reading,
    findings_hash,
    gained,
    why_converged,
)

SETTINGS = StallSettings()


def ends(
    scores: list[float],
    *,
    iteration: int = 9,
    pending: int = 0,
    total: int | None = None,
    findings: list[str] | None = None,
) -> str | None:
    found = findings or [f"f{number}" for number in range(len(scores))]
    readings = tuple(
        Measurement(confidence=score, output="o", findings=one)
        for score, one in zip(scores, found, strict=True)
    )
    progress = Progress(readings=readings, total=len(scores) if total is None else total)
    return why_converged(progress, iteration=iteration, pending=pending, settings=SETTINGS)


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([0.7, 0.7, 0.7], True),
        ([0.70, 0.73, 0.70], True),
        ([0.70, 0.74, 0.74], True),
        ([0.70, 0.75, 0.75], False),
        ([0.70, 0.66, 0.62], True),
        ([0.9, 0.5, 0.5], True),
        ([0.3, 0.70, 0.70], False),
        ([0.70, 0.70, 0.75], False),
        ([0.70, 0.70, 0.65], False),
        ([0.70, 0.70, 0.6501], True),
        ([0.94, 0.94, 0.9499], True),
        ([0.95, 0.95, 0.95], False),
        ([1.0, 1.0, 1.0], False),
        ([0.0, 0.0, 0.0], False),
        ([0.01, 0.01, 0.01], True),
        ([0.50, 0.52, 0.54], False),
        ([0.50, 0.51, 0.52], False),
        ([0.50, 0.501, 0.502], True),
        ([0.30, 0.38, 0.46, 0.54, 0.62], False),
        ([0.10, 0.15, 0.20, 0.25], False),
        ([0.7, 0.7], True),
        ([0.7, 0.76], False),
        ([0.7], False),
        ([], False),
    ],
    ids=str,
)
def test_a_plateau_of_confidence(scores: list[float], wanted: bool) -> None:
    assert (ends(scores) is not None) is wanted


@pytest.mark.parametrize(
    ("iteration", "pending", "wanted"),
    [
        (4, 0, False),
        (5, 0, True),
        (5, 2, True),
        (5, 3, False),
        (6, 3, True),
        (12, 10, False),
        (13, 10, True),
    ],
)
def test_the_floor_follows_the_pending_subtasks(iteration: int, pending: int, wanted: bool) -> None:
    assert (ends([0.7] * 3, iteration=iteration, pending=pending) is not None) is wanted


@pytest.mark.parametrize(
    ("scores", "total", "wanted"),
    [([0.7, 0.7], 2, True), ([0.7, 0.7], 9, False), ([0.7] * 3, 9, True)],
    ids=["only two exist", "two since a switch", "three since a switch"],
)
def test_a_strategy_gets_three_readings(scores: list[float], total: int, wanted: bool) -> None:
    assert (ends(scores, total=total) is not None) is wanted


@pytest.mark.parametrize(
    ("findings", "wanted"),
    [
        (["a", "a", "a"], True),
        (["a", "a", "b"], False),
        (["", "", ""], False),
        (["b", "a", "a"], False),
        (["b", "a", "a", "a"], True),
        (["a", "a"], False),
    ],
    ids=["equal", "one differs", "empty", "two equal", "the last three", "only two"],
)
def test_equal_key_findings(findings: list[str], wanted: bool) -> None:
    scores = [0.8, 0.5, 0.2, 0.3][: len(findings)]
    found = ends(scores, findings=findings)
    assert (found is not None) is wanted
    assert found is None or "same findings" in found


def test_findings_are_compared_as_sets_without_case_and_spaces() -> None:
    assert findings_hash(["A  b", "c"]) == findings_hash(["c", "a b", "c"])
    assert findings_hash(["a"]) != findings_hash(["b"])
    assert findings_hash(["", " "]) == "" == findings_hash([])


@given(
    st.floats(min_value=0.01, max_value=0.3),
    st.floats(min_value=0, max_value=0.5),
    st.integers(min_value=2, max_value=20),
)
def test_slow_steady_improvement_never_converges(step: float, start: float, count: int) -> None:
    scores = [start + step * number for number in range(count) if start + step * number <= 1]
    assert ends(scores) is None


@pytest.mark.parametrize("scores", [[0.2, 0.5, 0.8], [0.50, 0.51, 0.52]], ids=["fast", "slow"])
def test_work_that_gets_better_has_not_converged_though_its_findings_stay(
    scores: list[float],
) -> None:
    assert ends(scores, findings=["a", "a", "a"]) is None


def play(scores: list[float]) -> tuple[list[str], list[str | None]]:
    """The signal after each reading, and why it counts as converged, without strategies."""
    progress, signals, converged = Progress(), list[str](), list[str | None]()
    for number, score in enumerate(scores, start=1):
        reading = Measurement(confidence=score, output=f"o{number}", findings=f"f{number}")
        progress, verdict = after_reading(
            progress, reading, similarity=None, settings=SETTINGS, strategies=()
        )
        signals.append(verdict.signal)
        converged.append(why_converged(progress, iteration=number, pending=0, settings=SETTINGS))
    return signals, converged


@pytest.mark.parametrize(
    ("scores", "converges_at"),
    [
        ([0.50, 0.54, 0.54, 0.58, 0.58, 0.62, 0.62], None),
        ([0.50, 0.54, 0.54, 0.58, 0.58, 0.62, 0.62, 0.66, 0.66, 0.70, 0.70], None),
        ([0.30, 0.30, 0.30, 0.35, 0.35, 0.35, 0.40, 0.40, 0.40, 0.45], None),
        ([0.50, 0.53, 0.52, 0.56, 0.55, 0.59, 0.58, 0.62, 0.61], None),
        ([0.50, 0.51, 0.51, 0.52, 0.52, 0.53, 0.53], 5),
        ([0.50, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60], 8),
        ([0.60, 0.60, 0.60, 0.60, 0.60], 5),
        ([0.60, 0.55, 0.55, 0.55, 0.55], 5),
    ],
    ids=[
        "steps", "many steps", "long steps", "two steps up, one down", "small steps", "one rise",
        "flat", "a fall",
    ],
)  # fmt: skip
def test_a_rise_in_steps_goes_on(scores: list[float], converges_at: int | None) -> None:
    _, converged = play(scores)
    found = [number for number, why in enumerate(converged, start=1) if why is not None]
    assert (found[0] if found else None) == converges_at


@given(
    st.integers(min_value=20, max_value=60),
    st.lists(st.sampled_from([(0, 5), (5, 0), (2, 3), (0, 3, 3), (3, 0, 3), (6,)]), max_size=12),
)
def test_what_rises_within_two_windows_neither_stalls_nor_converges(
    start: int, rises: list[tuple[int, ...]]
) -> None:
    points = [start]
    for rise in rises:
        points += [points[-1] + sum(rise[: number + 1]) for number in range(len(rise))]
    scores = [point / 100 for point in points if point <= 94]
    signals, converged = play(scores)
    for number in range(5, len(scores) + 1):
        seen, older = scores[max(0, number - 6) : number], scores[: max(0, number - 6)]
        before = max(older) if older else seen[0]
        assert round(max(seen) - before, 9) >= 0.05
        assert (converged[number - 1], signals[number - 1]) == (None, "ok")


@given(st.lists(st.integers(min_value=50, max_value=54), min_size=5, max_size=20))
def test_what_never_gains_enough_converges(points: list[int]) -> None:
    scores = [point / 100 for point in (*points, points[-1], points[-1], points[-1])]
    assert play(scores)[1][-1] is not None


@given(st.lists(st.integers(min_value=0, max_value=100), min_size=1, max_size=30))
def test_readings_that_are_no_longer_kept_still_count(points: list[int]) -> None:
    scores = [point / 100 for point in points]
    progress = Progress()
    for score in scores:
        progress, _ = after_reading(
            progress, Measurement(confidence=score), similarity=None,
            settings=StallSettings(fresh_window=False), strategies=(),
        )  # fmt: skip
    kept = [reading.confidence for reading in progress.readings]
    assert len(kept) <= 6
    assert gained(kept, progress.earlier) == gained(scores, None)
