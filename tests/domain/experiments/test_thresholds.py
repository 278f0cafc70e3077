"""Other settings, replayed on the scores that runs really had."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.experiments.plan import Arm, Entry, Fields, Plan
from perdure.domain.experiments.thresholds import (
    Setting,
    recorded_settings,
    stopped_after,
    study,
    trajectories,
)
from perdure.domain.experiments.trials import Step, Trial, Try


def steps(*scores: float | None) -> tuple[Step, ...]:
    return tuple(Step(score=score, tokens=10) for score in scores)


def trial(number: int, *scores: float | None) -> Trial:
    one = Try(run=f"r{number}", outcome="best_effort", steps=steps(*scores))
    return Trial(number=number, arm="loop", entry=number, tries=(one,), ended=True)


@pytest.mark.parametrize(
    ("scores", "most", "quality", "least", "after"),
    [
        ((0.2, 0.5, 0.9), 3, 1.0, 0.0, 3),
        ((0.2, 0.5, 0.9), 2, 1.0, 0.0, 2),
        ((0.2, 0.5, 0.9), 3, 0.5, 0.0, 2),
        ((0.9, 0.5, 0.95), 3, 0.9, 0.0, 1),
        ((0.2, 0.21, 0.9), 3, 1.0, 0.05, 2),
        # A worse draft is no improvement; about a draft without a score the loop cannot say.
        ((0.5, 0.2, 0.9), 3, 1.0, 0.05, 2),
        ((0.5, None, 0.9), 3, 1.0, 0.05, 3),
        ((0.5, None, 0.52, 0.9), 4, 1.0, 0.05, 3),
        ((None, 0.02, 0.9), 3, 1.0, 0.05, 3),
        ((None, None), 9, 0.5, 0.5, 2),
        ((0.5,), 9, 1.0, 0.5, 1),
        # As floats, 0.7 - 0.65 is less than 0.05; the loop itself goes on.
        ((0.65, 0.7, 0.9), 3, 1.0, 0.05, 3),
    ],
)
def test_when_a_run_would_have_stopped(
    scores: tuple[float | None, ...], most: int, quality: float, least: float, after: int
) -> None:
    setting = Setting(max_iterations=most, quality_threshold=quality, improvement_threshold=least)
    assert stopped_after(trajectories(steps(*scores)), setting) == after


@given(
    scores=st.lists(st.floats(0, 1), min_size=1, max_size=8),
    most=st.integers(1, 8),
    quality=st.floats(0.1, 1),
    least=st.floats(0, 0.5),
)
def test_no_setting_runs_longer_than_it_was_recorded(
    scores: list[float], most: int, quality: float, least: float
) -> None:
    setting = Setting(max_iterations=most, quality_threshold=quality, improvement_threshold=least)
    assert 1 <= stopped_after(trajectories(steps(*scores)), setting) <= min(len(scores), most)


def test_the_cheapest_setting_that_is_as_good_is_recommended() -> None:
    found = study("loop", [trial(0, 0.4, 0.8, 0.8, 0.8), trial(1, 0.5, 0.9, 0.9, 0.9)])
    assert found is not None
    assert found.longest == 4
    assert found.recommended.score == pytest.approx(0.85)
    assert found.recommended.iterations == 2
    assert [one.tokens for one in found.estimates] == sorted(one.tokens for one in found.estimates)


def test_one_iteration_leaves_nothing_to_choose() -> None:
    assert study("loop", [trial(0, 0.5)]) is None
    assert study("other", [trial(0, 0.5, 0.6)]) is None
    assert study("loop", []) is None


ENDED_AT_80 = [
    trial(number, *scores)
    for number, scores in enumerate([(0.9,), (0.3, 0.4, 0.5, 0.85), (0.86,), (0.6, 0.8)])
]
AT_80 = Setting(max_iterations=5, quality_threshold=0.8, improvement_threshold=0.05)


def test_no_setting_that_goes_on_longer_than_the_recorded_one_is_tried() -> None:
    found = study("loop", ENDED_AT_80, AT_80)
    assert found is not None
    assert (found.recommended.setting, found.recommended.tokens) == (AT_80, 20)
    for one in found.estimates:
        assert one.setting.quality_threshold <= 0.8
        assert one.setting.improvement_threshold >= 0.05


def test_a_recorded_setting_off_the_grid_is_tried_too() -> None:
    odd = Setting(max_iterations=4, quality_threshold=0.78, improvement_threshold=0.03)
    found = study("loop", ENDED_AT_80, odd)
    assert found is not None
    assert found.recommended.setting == odd


@pytest.mark.parametrize(
    "recorded", [None, AT_80.model_copy(update={"quality_threshold": 0.5})], ids=["none", "wrong"]
)
def test_without_the_recorded_setting_no_run_may_end_before_a_setting_ends_it(
    recorded: Setting | None,
) -> None:
    found = study("loop", ENDED_AT_80, recorded)
    assert found is not None
    assert (found.recommended.setting.quality_threshold, found.recommended.tokens) == (0.8, 20)
    assert all(
        one.setting.quality_threshold <= 0.8 or one.setting.max_iterations <= 2
        for one in found.estimates
    )


def test_nothing_is_recommended_where_nothing_that_can_be_replayed_is_as_good() -> None:
    # Something else ended the first run, so nobody knows what a second iteration had brought.
    assert study("loop", [trial(0, 0.4), trial(1, 0.4, 0.6, 0.9)]) is None


def test_a_run_that_other_rules_ended_is_replayed_under_its_setting() -> None:
    found = study("loop", [trial(0, 0.2, 0.4), trial(1, 0.3, 0.5, 0.8)], AT_80)
    assert found is not None
    assert (found.recommended.setting, found.recommended.tokens) == (AT_80, 25)


REFINE: Fields = {"max_iterations": 5, "quality_threshold": 0.8, "improvement_threshold": 0.05}
STRICT = Entry(name="b", fields={"refine": {"quality_threshold": 0.9}})


@pytest.mark.parametrize(
    ("task", "own", "entries", "setting"),
    [
        ({"kind": "refine", "refine": REFINE}, {}, [Entry(name="a")], AT_80),
        ({"kind": "refine", "refine": REFINE}, {}, [Entry(name="a"), STRICT], None),
        (
            {"kind": "refine", "refine": REFINE},
            {"refine": {"quality_threshold": 0.8}},
            [Entry(name="a"), STRICT],
            AT_80,
        ),
        (
            {"kind": "refine", "refine": {"pattern": "improvement", "max_iterations": 5}},
            {},
            [Entry(name="a")],
            Setting(max_iterations=5, quality_threshold=1.0),
        ),
        (
            {
                "kind": "refine",
                "refine": {**REFINE, "termination": {"type": "max_iterations", "limit": 3}},
            },
            {},
            [Entry(name="a")],
            None,
        ),
        ({"kind": "roles"}, {}, [Entry(name="a")], None),
    ],
    ids=["one", "inputs differ", "the arm's own counts", "improvement", "a tree", "roles"],
)
def test_the_setting_of_an_arm(
    task: Fields, own: Fields, entries: list[Entry], setting: Setting | None
) -> None:
    plan = Plan(name="test", arms=(Arm(name="loop", task=task, own=own),))
    assert recorded_settings(plan, entries).get("loop") == setting
