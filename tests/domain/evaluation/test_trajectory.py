"""Trajectories: best, gain, regression, plateau and degradation at their exact borders."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.trajectory import RECENT_POINTS, ScoredIteration, Trajectory, rounded

SCORES = st.lists(st.none() | st.floats(0, 1), max_size=40)


def follow(*scores: float | None) -> Trajectory:
    trajectory = Trajectory()
    for score in scores:
        trajectory = trajectory.after(score)
    return trajectory


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        pytest.param((), None, id="nothing yet"),
        pytest.param((0.0,), ScoredIteration(iteration=1, score=0.0), id="zero beats nothing"),
        pytest.param((None,), ScoredIteration(iteration=1), id="unscored while nothing is scored"),
        pytest.param((None, None), ScoredIteration(iteration=2), id="later unscored"),
        pytest.param(
            (None, 0.0), ScoredIteration(iteration=2, score=0.0), id="zero beats unscored"
        ),
        pytest.param(
            (0.0, None), ScoredIteration(iteration=1, score=0.0), id="unscored never beats"
        ),
        pytest.param(
            (0.7, 0.7), ScoredIteration(iteration=2, score=0.7), id="tie goes to the later"
        ),
        pytest.param(
            (0.7, 0.7 + 1e-12), ScoredIteration(iteration=2, score=0.7), id="tie by rounding"
        ),
        pytest.param((0.9, 0.5, 0.8), ScoredIteration(iteration=1, score=0.9), id="highest"),
    ],
)
def test_best(scores: tuple[float | None, ...], best: ScoredIteration | None) -> None:
    assert follow(*scores).best == best


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, -0.1, 1.1], ids=str)
def test_what_is_no_score_leaves_the_iteration_unscored(score: float) -> None:
    trajectory = follow(0.5, score)
    assert trajectory.current is None
    assert trajectory.best == ScoredIteration(iteration=1, score=0.5)
    assert trajectory.completed == 2


def test_without_output_there_is_neither_score_nor_best() -> None:
    trajectory = Trajectory().after(0.9, has_output=False)
    assert trajectory.best is None
    assert trajectory.current is None
    assert trajectory.since_best == 1


@pytest.mark.parametrize(
    ("scores", "compare_with", "regressed"),
    [
        pytest.param((0.5,), "previous", False, id="first scored"),
        pytest.param((0.9, 0.7), "previous", False, id="exactly 0.2"),
        pytest.param((0.9, 0.699999999), "previous", True, id="just over"),
        pytest.param((0.3, 0.1), "previous", False, id="exactly 0.2 in floats that are not"),
        pytest.param((0.9, None), "previous", False, id="unscored is no fall"),
        pytest.param((0.9, None, 0.6), "previous", True, id="previous scored counts"),
        pytest.param((0.9, 0.75, 0.6), "previous", False, id="slow against previous"),
        pytest.param((0.9, 0.75, 0.6), "best", True, id="slow against best"),
        pytest.param((0.9, 0.75, 0.7), "best", False, id="exactly 0.2 against best"),
    ],
)
def test_regression(scores: tuple[float | None, ...], compare_with: str, regressed: bool) -> None:
    assert follow(*scores).has_regressed(0.2, compare_with) is regressed  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scores", "diminishing"),
    [
        pytest.param((0.5,), False, id="first scored"),
        pytest.param((0.5, 0.55), False, id="exactly the threshold"),
        pytest.param((0.5, 0.549), True, id="less"),
        pytest.param((0.5, 0.45), True, id="a small drop counts"),
        pytest.param((0.5, None), False, id="unscored has no change"),
        pytest.param((None, 0.5), False, id="nothing scored before"),
    ],
)
def test_diminishing(scores: tuple[float | None, ...], diminishing: bool) -> None:
    assert follow(*scores).is_diminishing(0.05) is diminishing


@pytest.mark.parametrize(
    ("scores", "since_best", "gain"),
    [
        pytest.param((0.5,), 0, None, id="first"),
        pytest.param((0.5, 0.5), 1, 0.0, id="a tie is no improvement"),
        pytest.param((0.5, None), 1, None, id="a failed one counts"),
        pytest.param((0.5, 0.4, 0.3), 2, -0.2, id="two without"),
        pytest.param((0.5, 0.4, 0.6), 0, 0.1, id="a new best ends the row"),
        pytest.param((None, None), 2, None, id="never scored"),
    ],
)
def test_since_best(scores: tuple[float | None, ...], since_best: int, gain: float | None) -> None:
    trajectory = follow(*scores)
    assert trajectory.since_best == since_best
    assert trajectory.has_no_new_best(since_best)
    assert not trajectory.has_no_new_best(since_best + 1)
    assert trajectory.gain == gain


@pytest.mark.parametrize(
    ("scores", "window", "degrading"),
    [
        pytest.param((0.9, 0.8), 3, False, id="too few"),
        pytest.param((0.9, 0.8, 0.7), 3, True, id="three falling"),
        pytest.param((0.9, 0.8, 0.8), 3, False, id="a level one"),
        pytest.param((0.9, 0.8, 0.85, 0.8), 3, False, id="interrupted"),
        pytest.param((0.9, None, 0.8, None, 0.7), 3, True, id="unscored are skipped"),
        pytest.param((0.9, 0.8), 2, True, id="window of two"),
    ],
)
def test_degrading(scores: tuple[float | None, ...], window: int, degrading: bool) -> None:
    assert follow(*scores).is_degrading(window) is degrading


@given(SCORES)
def test_best_is_the_highest_and_on_a_tie_the_later(scores: list[float | None]) -> None:
    trajectory = follow(*scores)
    scored = [(rounded(score), n) for n, score in enumerate(scores, 1) if score is not None]
    if scored:
        score, iteration = max(scored)
        assert trajectory.best == ScoredIteration(iteration=iteration, score=score)
    else:
        assert trajectory.best == (ScoredIteration(iteration=len(scores)) if scores else None)


@given(SCORES)
def test_the_fold_says_the_same_as_the_whole_list(scores: list[float | None]) -> None:
    trajectory = follow(*scores)
    scored = [rounded(score) for score in scores if score is not None]
    assert trajectory.scored == len(scored)
    assert len(trajectory.recent) == min(len(scores), RECENT_POINTS)
    window = scored[-3:]
    falling = len(window) == 3 and window[0] > window[1] > window[2]
    assert trajectory.is_degrading(3) is falling
    assert Trajectory.model_validate_json(trajectory.model_dump_json()) == trajectory
