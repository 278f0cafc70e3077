"""Series of confidences and similarities, and the signal that each reading gives."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.delegation.spec import STRATEGIES, StallSettings, StrategyName
from perdure.domain.delegation.stall import (
    Measurement,
    Progress,
    Signal,
    after_reading,
    compared_with,
    is_steady_rise,
    oscillates,
)

OK: Signal = "ok"
WARN: Signal = "warn"
SWITCH: Signal = "switch_strategy"
STOP: Signal = "stop"
ALIKE, DIFFERENT = 0.95, 0.3
SETTINGS = StallSettings()
NONE: tuple[StrategyName, ...] = ()


def signals(
    scores: Sequence[float],
    similarity: float | Sequence[float | None] | None = DIFFERENT,
    *,
    strategies: Sequence[StrategyName] = STRATEGIES,
    settings: StallSettings = SETTINGS,
) -> list[Signal]:
    return [signal for signal, _ in run(scores, similarity, strategies, settings)]


def run(
    scores: Sequence[float],
    similarity: float | Sequence[float | None] | None,
    strategies: Sequence[StrategyName],
    settings: StallSettings,
) -> list[tuple[Signal, Progress]]:
    progress, seen = Progress(), []
    for number, score in enumerate(scores):
        alike = similarity[number] if isinstance(similarity, Sequence) else similarity
        if compared_with(progress, settings) is None:
            alike = None
        progress, verdict = after_reading(
            progress,
            Measurement(confidence=score, output=f"o{number}"),
            similarity=alike,
            settings=settings,
            strategies=strategies,
        )
        seen.append((verdict.signal, progress))
    return seen


# One channel at most: outputs differ.
DIFFERING: dict[str, tuple[Sequence[float], Sequence[str]]] = {
    "one reading": ([0.5], [OK]),
    "two equal readings are fewer than the window": ([0.5, 0.5], [OK, OK]),
    "the steady rise of the specification": ([0.30, 0.38, 0.46, 0.54, 0.62], [OK] * 5),
    "a jump after a flat stretch": ([0.5, 0.5, 0.52, 0.70], [OK, OK, WARN, OK]),
    "steps of 0.05": ([0.10, 0.15, 0.20, 0.25, 0.30, 0.35], [OK] * 6),
    "steps of 0.05 from an odd start": ([0.07, 0.12, 0.17, 0.22, 0.27], [OK] * 5),
    "steps of 0.025": ([0.5, 0.525, 0.55, 0.575, 0.6], [OK] * 5),
    "steps of 0.02": ([0.5, 0.52, 0.54, 0.56, 0.58], [OK] * 5),
    "steps of 0.01": ([0.5, 0.51, 0.52, 0.53, 0.54, 0.55], [OK] * 6),
    "steps of 0.001 are none": ([0.5, 0.501, 0.502], [OK, OK, WARN]),
    "flat": ([0.5] * 3, [OK, OK, WARN]),
    "flat again switches": ([0.5] * 4, [OK, OK, WARN, SWITCH]),
    "flat at zero": ([0.0] * 3, [OK, OK, WARN]),
    "flat at the top": ([1.0] * 3, [OK, OK, WARN]),
    "after a switch the window fills anew": ([0.5] * 7, [OK, OK, WARN, SWITCH, OK, OK, WARN]),
    "flat all the way": ([0.5] * 16, [OK, OK, WARN, SWITCH, *[OK, OK, WARN, SWITCH] * 3]),
    "flat with no strategy left only warns": (
        [0.5] * 20,
        [*[OK, OK, WARN, SWITCH] * 4, OK, OK, WARN, WARN],
    ),
    "an ok between two warnings": (
        [0.5, 0.5, 0.5, 0.6, 0.61, 0.62, 0.62, 0.62, 0.62, 0.62, 0.62],
        [OK, OK, WARN, OK, OK, OK, OK, OK, OK, WARN, SWITCH],
    ),
    "steps with a flat reading between": (
        [0.50, 0.54, 0.54, 0.58, 0.58, 0.62, 0.62, 0.66, 0.66],
        [OK, OK, WARN, OK, OK, OK, OK, OK, OK],
    ),
    "steps with two flat readings between": (
        [0.50, 0.50, 0.55, 0.55, 0.55, 0.60, 0.60, 0.60, 0.65],
        [OK] * 9,
    ),
    "steps that are too small": (
        [0.50, 0.51, 0.51, 0.52, 0.52, 0.53, 0.53],
        [OK, OK, WARN, SWITCH, OK, OK, WARN],
    ),
    "down by less than the delta": ([0.5, 0.49, 0.48], [OK, OK, WARN]),
    "down by the delta": ([0.55, 0.52, 0.50], [OK, OK, OK]),
    "down and up to the same": ([0.5, 0.2, 0.5], [OK, OK, WARN]),
    "up and down to the same": ([0.2, 0.9, 0.2], [OK, OK, WARN]),
    "a change just below the delta": ([0.5, 0.5, 0.549], [OK, OK, WARN]),
    "a change of exactly the delta": ([0.5, 0.5, 0.55], [OK, OK, OK]),
    "a fall of exactly the delta": ([0.55, 0.55, 0.5], [OK, OK, OK]),
    "rounding does not count": ([0.1 + 0.2, 0.3, 0.35], [OK, OK, OK]),
    "a late start": ([0.1, 0.1, 0.3, 0.5, 0.7], [OK, OK, OK, OK, OK]),
    "two plateaus": ([0.3, 0.3, 0.5, 0.5, 0.7, 0.7], [OK] * 6),
    "a plateau after a rise": (
        [0.3, 0.5, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7],
        [OK, OK, OK, OK, OK, OK, OK, OK, WARN],
    ),
    "a fall after a rise": ([0.3, 0.5, 0.7, 0.5, 0.3], [OK, OK, OK, WARN, OK]),
    "oscillation of two levels": (
        [0.30, 0.40, 0.30, 0.40, 0.30, 0.40],
        [OK, OK, WARN, SWITCH, OK, OK],
    ),
    "oscillation that changes over each window": (
        [0.50, 0.40, 0.60, 0.35, 0.53, 0.30],
        [OK, OK, OK, OK, OK, WARN],
    ),
    "oscillation at a high level is none": (
        [0.80, 0.70, 0.90, 0.70, 0.83, 0.60],
        [OK, OK, OK, WARN, OK, OK],
    ),
    "oscillation with new bests is none": ([0.20, 0.10, 0.30, 0.20, 0.40, 0.30], [OK] * 6),
    "noise upwards": ([0.40, 0.48, 0.46, 0.54, 0.52, 0.60], [OK] * 6),
}


@pytest.mark.parametrize(("scores", "wanted"), DIFFERING.values(), ids=DIFFERING)
def test_the_channel_of_scores(scores: Sequence[float], wanted: Sequence[str]) -> None:
    assert signals(scores) == [*wanted]


# Both channels: outputs are alike as well.
ALIKE_ONES: dict[str, tuple[Sequence[float], float, Sequence[str]]] = {
    "flat and alike switches at once": ([0.5] * 3, ALIKE, [OK, OK, SWITCH]),
    "flat and alike to the end": ([0.5] * 15, ALIKE, [OK, OK, SWITCH] * 4 + [OK, OK, STOP]),
    "alike but rising warns, then switches": ([0.3, 0.4, 0.5, 0.6], ALIKE, [OK, OK, WARN, SWITCH]),
    "alike but falling": ([0.6, 0.5, 0.4], ALIKE, [OK, OK, WARN]),
    "exactly at the threshold is not alike": ([0.5] * 3, 0.85, [OK, OK, WARN]),
    "just above the threshold is": ([0.5] * 3, 0.8501, [OK, OK, SWITCH]),
    "wholly the same": ([0.5] * 3, 1.0, [OK, OK, SWITCH]),
    "nothing in common": ([0.5] * 3, 0.0, [OK, OK, WARN]),
    "a slow rise of the same output": ([0.50, 0.52, 0.54, 0.56], ALIKE, [OK, OK, WARN, SWITCH]),
}


@pytest.mark.parametrize(("scores", "similarity", "wanted"), ALIKE_ONES.values(), ids=ALIKE_ONES)
def test_both_channels(scores: Sequence[float], similarity: float, wanted: Sequence[str]) -> None:
    assert signals(scores, similarity) == [*wanted]


# Without strategies, or with one.
POOLS: dict[str, tuple[Sequence[float], float, tuple[StrategyName, ...], Sequence[str]]] = {
    "switched off, one channel": ([0.5] * 5, DIFFERENT, NONE, [OK, OK, WARN, WARN, WARN]),
    "switched off, both channels": ([0.5] * 3, ALIKE, NONE, [OK, OK, STOP]),
    "switched off, a rise": ([0.3, 0.4, 0.5, 0.6], DIFFERENT, NONE, [OK] * 4),
    "one strategy, both channels": ([0.5] * 6, ALIKE, ("reframe",), [OK, OK, SWITCH, OK, OK, STOP]),
    "one strategy, one channel": (
        [0.5] * 8,
        DIFFERENT,
        ("reframe",),
        [OK, OK, WARN, SWITCH, OK, OK, WARN, WARN],
    ),
    "a rise after the only strategy": (
        [0.5, 0.5, 0.5, 0.52, 0.56, 0.60],
        ALIKE,
        ("simplify",),
        [OK, OK, SWITCH, OK, OK, WARN],
    ),
}


@pytest.mark.parametrize(("scores", "similarity", "pool", "wanted"), POOLS.values(), ids=POOLS)
def test_pools_of_strategies(
    scores: Sequence[float],
    similarity: float,
    pool: tuple[StrategyName, ...],
    wanted: Sequence[str],
) -> None:
    assert signals(scores, similarity, strategies=pool) == [*wanted]


@pytest.mark.parametrize(
    ("settings", "scores", "wanted"),
    [
        (StallSettings(window=2), [0.5, 0.5, 0.5], [OK, WARN, SWITCH]),
        (StallSettings(window=5), [0.5] * 6, [OK, OK, OK, OK, WARN, SWITCH]),
        (StallSettings(min_confidence_delta=0.0), [0.5] * 4, [OK] * 4),
        (StallSettings(min_confidence_delta=0.2), [0.3, 0.3, 0.45], [OK, OK, WARN]),
        (StallSettings(fresh_window=False), [0.5] * 6, [OK, OK, WARN, SWITCH, WARN, SWITCH]),
    ],
    ids=["window 2", "window 5", "no delta", "large delta", "old readings stay"],
)
def test_settings_move_the_thresholds(
    settings: StallSettings, scores: Sequence[float], wanted: Sequence[str]
) -> None:
    assert signals(scores, settings=settings) == [*wanted]


@pytest.mark.parametrize(
    ("outputs", "wanted"),
    [
        ([None, None, None], [OK, OK, SWITCH]),
        (["a", None, None], [OK, OK, WARN]),
        ([None, None, "a"], [OK, OK, WARN]),
    ],
    ids=["always nothing", "something before", "something now"],
)
def test_workers_that_hand_back_nothing_are_alike(
    outputs: list[str | None], wanted: Sequence[str]
) -> None:
    progress, seen = Progress(), []
    for output in outputs:
        progress, verdict = after_reading(
            progress,
            Measurement(confidence=0.0, output=output),
            similarity=None,
            settings=StallSettings(),
            strategies=STRATEGIES,
        )
        seen.append(verdict.signal)
    assert seen == [*wanted]


def test_strategies_come_in_their_order_each_once() -> None:
    seen = run([0.5] * 15, ALIKE, STRATEGIES, StallSettings())
    switched = [progress.strategy for signal, progress in seen if signal == SWITCH]
    assert switched == list(STRATEGIES)
    assert seen[-1][1].why == "confidence changed by 0 over 3 delegations and the workers' " + (
        "outputs are 95% alike"
    )


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ([0.55, 0.59], ("decompose_finer",)),
        ([0.55, 0.60], ()),
        ([0.9], ()),
        ([0.4, 0.5], ("decompose_finer",)),
    ],
    ids=["less than 0.1", "0.1 in two steps", "a jump", "back where it was"],
)
def test_real_progress_refills_the_pool(after: list[float], left: tuple[str, ...]) -> None:
    seen = run([0.5, 0.5, 0.5, *after], [ALIKE] * 3 + [None] * 4, STRATEGIES, StallSettings())
    assert seen[-1][1].used == left


def test_the_next_output_is_compared_with_the_oldest_of_the_window() -> None:
    progress = Progress(readings=tuple(Measurement(confidence=0.1, output=o) for o in "abcd"))
    found = compared_with(progress, StallSettings())
    assert found is not None and found.output == "c"
    assert compared_with(Progress(readings=progress.readings[:1]), StallSettings()) is None


@pytest.mark.parametrize(
    ("scores", "best", "wanted"),
    [
        ([0.3, 0.5, 0.3, 0.5, 0.3, 0.5], 0.5, True),
        ([0.3, 0.5, 0.3, 0.5, 0.3], 0.5, False),
        ([0.3, 0.5, 0.3, 0.5, 0.3, 0.6], 0.6, False),
        ([0.3, 0.5, 0.3, 0.5, 0.3, 0.6], 0.9, True),
        ([0.3, 0.4, 0.5, 0.4, 0.3, 0.2], 0.5, False),
        ([0.6, 0.8, 0.6, 0.8, 0.6, 0.8], 0.8, False),
        ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], 0.5, False),
        ([0.3, 0.5, 0.5, 0.3, 0.5, 0.3], 0.5, True),
    ],
    ids=[
        "up and down",
        "five readings",
        "a new best",
        "no new best of the run",
        "one turn",
        "mean of 0.7",
        "flat",
        "with a flat step",
    ],
)
def test_oscillation(scores: Sequence[float], best: float, wanted: bool) -> None:
    assert oscillates(scores, best) is wanted


STEPS = st.floats(min_value=0.01, max_value=0.2, allow_nan=False)


@given(st.lists(STEPS, min_size=1, max_size=60), st.floats(min_value=0, max_value=0.5))
def test_slow_steady_improvement_is_never_called_a_stall(steps: list[float], start: float) -> None:
    scores = [start]
    for step in steps:
        if scores[-1] + step > 1:
            break
        scores.append(scores[-1] + step)
    assert set(signals(scores)) == {OK}


@given(st.lists(st.floats(min_value=0, max_value=1), max_size=80), st.data())
def test_any_series_switches_a_bounded_number_of_times(
    scores: Sequence[float], data: st.DataObject
) -> None:
    alike = data.draw(
        st.lists(st.sampled_from([0.0, 0.9, None]), min_size=len(scores), max_size=len(scores))
    )
    found = run(scores, alike, STRATEGIES, StallSettings())
    # The pool refills for each real progress of 0.1 at most.
    assert sum(signal == SWITCH for signal, _ in found) <= 11 * len(STRATEGIES)
    assert all(len(progress.readings) <= 6 for _, progress in found)


@given(st.lists(st.floats(min_value=0, max_value=1), max_size=40))
def test_different_outputs_never_stop_a_run(scores: Sequence[float]) -> None:
    assert STOP not in signals(scores, DIFFERENT, strategies=NONE)


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [([0.1, 0.2, 0.3], True), ([0.1], False), ([], False), ([0.3, 0.3, 0.4], False)],
)
def test_steady_rises(scores: Sequence[float], wanted: bool) -> None:
    assert is_steady_rise(scores, StallSettings()) is wanted
