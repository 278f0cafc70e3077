"""The own score against the held-out one: what is said, and when nothing is."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.experiments.plan import Arm, Plan, Scoring
from perdure.domain.experiments.trials import Trial, Try
from perdure.interfaces.experiments.disagreement import ORDERED, UNRELATED, rank_correlation
from perdure.interfaces.experiments.export import markdown
from perdure.interfaces.experiments.report import ExperimentReport, report
from perdure.interfaces.experiments.statistics import FEWEST

Scores = Sequence[tuple[float | None, float | None]]
ARMS = ("loop", "single")
RISING = [round(number / 19, 2) for number in range(20)]
SHUFFLED = random.Random(3).sample(RISING, len(RISING))
HIGHER, REFUSES = "meets its own checks better", "its own checks refuse"
AWAY, BLIND = "points away from the goal", "does not tell good outputs from bad"
WRONG_ARM = "choose the wrong arm"
ALL = (HIGHER, REFUSES, AWAY, BLIND, WRONG_ARM)


def trial(arm: str, entry: int, own: float | None, held: float | None, **more: object) -> Trial:
    fields = {"run": f"{arm}-{entry}", "outcome": "accepted", "score": own, "held_out": held}
    one = Try.model_validate({**fields, **more})
    number = entry * len(ARMS) + ARMS.index(arm)
    return Trial(number=number, arm=arm, entry=entry, tries=(one,), ended=True)


def made(*trials: Trial, by: str = "check") -> ExperimentReport:
    scoring = Scoring.model_validate({"by": by})
    plan = Plan(name="t", arms=tuple(Arm(name=arm, task={}) for arm in ARMS), scoring=scoring)
    count = 1 + max(one.entry for one in trials)
    names = [str(number) for number in range(count)]
    return report(plan, trials, id="e", state="ended", entries=names)


def told(scores: Scores, *, by: str = "check") -> list[str]:
    """The warnings of one arm with these own and held-out scores."""
    trials = [trial("loop", entry, own, held) for entry, (own, held) in enumerate(scores)]
    return kinds(made(*trials, by=by).warnings)


def kinds(warnings: Sequence[str]) -> list[str]:
    return [kind for one in warnings for kind in ALL if kind in one]


def both(own: Sequence[float], held: Sequence[float]) -> Scores:
    return list(zip(own, held, strict=True))


CASES: list[tuple[str, Scores, list[str]]] = [
    ("the same", both(RISING, RISING), []),
    ("nearly the same", both(RISING, [min(1, score + 0.03) for score in RISING]), []),
    ("far above", [(0.95, 0.4)] * 6, [HIGHER]),
    ("far above, on one input", [(0.95, 0.4)], [HIGHER]),
    ("far below", [(0.4, 0.95)] * FEWEST, [REFUSES]),
    ("far below, on few inputs", [(0.4, 0.95)] * (FEWEST - 1), []),
    ("inverted", both(RISING, RISING[::-1]), [AWAY]),
    ("inverted on enough", both(RISING[:ORDERED], RISING[:ORDERED][::-1]), [AWAY]),
    ("inverted on few", both(RISING[: ORDERED - 1], RISING[: ORDERED - 1][::-1]), []),
    ("far above and inverted", both([0.8, *[0.9] * 9, *[1.0] * 10], RISING[::-1]), [HIGHER, AWAY]),
    ("unrelated", both(RISING, SHUFFLED), [BLIND]),
    ("unrelated on few", both(RISING[:-1], SHUFFLED[:-1]), []),
    ("all alike", [(0.5, 0.5)] * 40, []),
    ("own scores alike", [(0.5, score) for score in RISING], []),
    ("held-out scores alike", [(score, 0.5) for score in RISING], []),
    ("close to each other", [(0.5 + s / 11, 0.5 - s / 11) for s in RISING], []),
    ("one other than the rest", [(1.0, 1 - s / 6) for s in RISING[:-1]] + [(0.5, 0.95)], []),
    ("right or wrong, as it says", [(1.0, 1.0)] * 10 + [(0.2, 0.0)] * 10, []),
    ("right or wrong, the reverse", [(0.6, 0.0)] * 10 + [(0.4, 1.0)] * 10, [AWAY]),
    ("without an own score", [(None, score) for score in RISING], []),
    ("without a held-out score", [(score, None) for score in RISING], []),
]


@pytest.mark.parametrize(("scores", "expected"), [case[1:] for case in CASES], ids=lambda _: "")
def test_what_is_said_of_an_arm(scores: Scores, expected: list[str]) -> None:
    assert told(scores) == expected


@pytest.mark.parametrize("by", ["check", "judge", "labels"])
def test_every_held_out_score_is_compared(by: str) -> None:
    assert told(both(RISING, RISING[::-1]), by=by) == [AWAY]


def test_the_own_rubric_disagrees_with_nothing() -> None:
    assert told(both(RISING, RISING[::-1]), by="rubric") == []


def test_it_stands_first_with_its_figures() -> None:
    trials = [trial("loop", at, own, 1 - own) for at, own in enumerate(RISING)]
    trials.append(trial("loop", len(RISING), None, None, outcome="failed", reason="evaluator"))
    found = made(*trials)
    assert [kinds([one]) for one in found.warnings] == [[AWAY], []]
    assert found.warnings[0] == (
        "The higher loop scores itself on an input, the lower is the held-out score (rank "
        "correlation -1.00 over 20 inputs): its own score points away from the goal."
    )
    assert markdown(found).splitlines()[2].startswith("> **The higher loop scores itself")


def test_runs_that_failed_are_no_disagreement() -> None:
    failed = [trial("loop", at, 0.9, None, outcome="failed", reason="x") for at in range(10)]
    good = [trial("loop", 10 + at, 0.9, 0.9) for at in range(10)]
    assert kinds(made(*failed, *good).warnings) == []


def test_repeats_of_one_input_are_one_input() -> None:
    trials = [
        trial("loop", at, own, 1 - own).model_copy(update={"repeat": repeat})
        for at, own in enumerate(RISING[: ORDERED - 1])
        for repeat in range(5)
    ]
    assert AWAY not in kinds(made(*trials).warnings)


def arms(count: int, loop: tuple[float, float], single: tuple[float, float]) -> ExperimentReport:
    return made(
        *(trial("loop", at, *loop) for at in range(count)),
        *(trial("single", at, *single) for at in range(count)),
    )


WINNERS = [
    (6, (0.75, 0.7), (0.7, 0.75), [WRONG_ARM]),
    (6, (0.75, 0.75), (0.7, 0.7), []),
    (6, (0.75, 0.7), (0.75, 0.75), []),
    (6, (0.75, 0.7), (0.7, 0.7), []),
    (FEWEST - 1, (0.75, 0.7), (0.7, 0.75), []),
]


@pytest.mark.parametrize(("count", "loop", "single", "expected"), WINNERS)
def test_the_winner_by_own_scores_loses(
    count: int, loop: tuple[float, float], single: tuple[float, float], expected: list[str]
) -> None:
    assert kinds(arms(count, loop, single).warnings) == expected


def test_the_wrong_arm_is_told_in_figures() -> None:
    assert arms(6, (0.75, 0.65), (0.7, 0.75)).warnings[-1] == (
        "By their own scores loop beats single by 0.05, and by the held-out score single beats "
        "loop by 0.10 on the same 6 inputs: their own scores choose the wrong arm."
    )


def test_a_winner_that_chance_may_have_made_is_not_called_wrong() -> None:
    draw = random.Random(1)
    noise = [draw.choice((-0.3, 0.3)) for _ in range(6)]
    trials = [trial("loop", at, 0.5 + by, 0.4) for at, by in enumerate(noise)]
    trials += [trial("single", at, 0.5, 0.6) for at in range(6)]
    assert WRONG_ARM not in kinds(made(*trials).warnings)


SCORE = st.floats(0, 1).map(lambda value: round(value, 3))
PAIRS = st.lists(st.tuples(SCORE, SCORE), min_size=2, max_size=60)


@given(PAIRS)
def test_the_correlation_is_symmetric_and_knows_only_order(
    scores: list[tuple[float, float]],
) -> None:
    own, held = [one for one, _ in scores], [other for _, other in scores]
    found = rank_correlation(own, held)
    assert found == rank_correlation([score**3 * 8 for score in own], held)
    other = rank_correlation(held, own)
    turned = rank_correlation([-score for score in own], held)
    if found is None:
        assert (other, turned) == (None, None)
    else:
        assert -1 <= found <= 1
        assert other == pytest.approx(found)
        assert turned == pytest.approx(-found)


@given(st.lists(SCORE, min_size=1, max_size=60))
def test_a_score_that_is_the_held_out_one_never_disagrees(scores: list[float]) -> None:
    assert told(both(scores, scores)) == []


@given(st.lists(st.tuples(SCORE, SCORE), min_size=1, max_size=ORDERED - 1))
def test_few_inputs_have_no_order(scores: list[tuple[float, float]]) -> None:
    assert not {AWAY, BLIND, WRONG_ARM} & set(told(scores))


@pytest.mark.long
@given(st.lists(SCORE, min_size=UNRELATED, max_size=60, unique=True))
def test_the_reverse_order_is_always_told(scores: list[float]) -> None:
    alike = max(scores) - min(scores) < 0.11
    assert alike or AWAY in told(both(scores, [1 - score for score in scores]))


@pytest.mark.parametrize("seed", range(20))
def test_a_good_score_with_noise_raises_no_alarm(seed: int) -> None:
    draw = random.Random(seed)
    held = [draw.random() for _ in range(40)]
    own = [min(1.0, max(0.0, score + draw.uniform(-0.15, 0.15))) for score in held]
    assert told(both(own, held)) == []
