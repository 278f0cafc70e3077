"""The report: what counts, what is called better, and what is said first."""

import csv
import io
import random
from decimal import Decimal

import pytest

from perdure.domain.experiments.plan import Arm, Plan, Scoring
from perdure.domain.experiments.trials import Step, Trial, Try
from perdure.interfaces.experiments.export import csv_of, json_lines_of, markdown, svg
from perdure.interfaces.experiments.report import ExperimentReport, report
from perdure.interfaces.experiments.trial_rows import TrialRow, trial_rows
from perdure.interfaces.experiments.words import arm_cells

ARMS = (Arm(name="loop", task={}), Arm(name="single", task={}))
PLAN = Plan(name="test", arms=ARMS)


def trial(arm: str, entry: int, score: float | None, *, tokens: int = 100, **more: object) -> Trial:
    fields = {
        "run": f"{arm}-{entry}",
        "outcome": "accepted",
        "score": score,
        "met": (score or 0) >= 0.9,
        "tokens": tokens,
        "cost_usd": Decimal(tokens) / 1000,
        "model_calls": 1,
        "steps": (Step(score=score, tokens=tokens),),
        **more,
    }
    number = entry * 2 + [one.name for one in ARMS].index(arm)
    one = Try.model_validate(fields)
    return Trial(number=number, arm=arm, entry=entry, tries=(one,), ended=True)


def made(trials: list[Trial], plan: Plan = PLAN, inputs: int | None = None) -> ExperimentReport:
    count = inputs or 1 + max((one.entry for one in trials), default=0)
    names = [f"input {number}" for number in range(count)]
    return report(plan, trials, id="e", state="ended", entries=names)


def effect(size: float, seed: int, inputs: int = 60) -> list[Trial]:
    """Trials of two arms over inputs of different difficulty; the loop is better by `size`."""
    draw, found = random.Random(seed), list[Trial]()
    for entry in range(inputs):
        hard = draw.uniform(0.2, 0.6)
        found.append(trial("single", entry, hard + draw.uniform(-0.1, 0.1)))
        found.append(trial("loop", entry, hard + size + draw.uniform(-0.1, 0.1)))
    return found


@pytest.mark.parametrize("seed", range(10))
def test_a_known_effect_is_found_and_its_size_is_in_the_interval(seed: int) -> None:
    (pair,) = made(effect(0.2, seed)).pairs
    assert (pair.better, pair.worse) == ("loop", "single")
    assert pair.difference.low is not None
    assert pair.difference.high is not None
    assert pair.difference.low > 0
    assert pair.difference.low - 0.02 <= 0.2 <= pair.difference.high + 0.02
    assert "loop beats single by" in pair.sentence
    assert "at the same spend" in pair.sentence


@pytest.mark.long
def test_no_effect_is_called_no_effect() -> None:
    called = [made(effect(0.0, seed)).pairs[0] for seed in range(20)]
    assert sum(pair.difference.differs for pair in called) <= 2
    silent = next(pair for pair in called if not pair.difference.differs)
    assert silent.sentence.startswith("No difference between")


NOTHING: list[dict[str, object]] = [
    {"score": 0.9, "outcome": "failed", "reason": "evaluator_failed"},
    {"score": None, "outcome": "out_of_budget", "reason": "cost", "steps": ()},
    {"score": None, "outcome": "no_output", "reason": "no_output"},
    {"score": None, "outcome": "deadline", "reason": "wall_time", "steps": ()},
]


@pytest.mark.parametrize("end", NOTHING, ids=lambda end: str(end["reason"]))
def test_a_run_that_brought_nothing_counts_as_nothing_and_says_why(end: dict[str, object]) -> None:
    trials = [trial("loop", 0, **end), trial("loop", 1, 0.5)]  # pyright: ignore[reportArgumentType]
    found = made(trials)
    assert found.arms[0].score.mean == 0.25
    assert found.arms[0].failed == 1
    assert found.warnings[0].startswith(
        f"1 of 2 trials of loop brought nothing to score: {end['outcome']}/{end['reason']} (1)."
    )


def test_the_most_frequent_end_comes_first() -> None:
    trials = [trial("loop", n, **NOTHING[n > 0]) for n in range(3)]  # pyright: ignore[reportArgumentType]
    assert "out_of_budget/cost (2), failed/evaluator_failed (1)" in made(trials).warnings[0]


def test_a_held_out_score_is_something() -> None:
    plan = Plan(name="test", arms=ARMS, scoring=Scoring(by="check"))
    (arm, _) = made([trial("loop", 0, None, held_out=0.5)], plan).arms
    assert (arm.failed, arm.score.mean) == (0, 0.5)


HELD_OUT = Plan(name="test", arms=ARMS, scoring=Scoring(by="check"))


def test_an_output_that_nobody_could_score_is_left_out_and_told() -> None:
    judged = {"judged": "loop-1-judge", "why": "the judge gave no score"}
    trials = [
        trial("loop", 0, 0.9, held_out=0.6),
        trial("loop", 1, 0.9, **judged),  # pyright: ignore[reportArgumentType]
        trial("single", 0, 0.5, held_out=0.2),
        trial("single", 1, 0.5, held_out=0.1),
    ]
    found = made(trials, HELD_OUT)
    loop, single = found.arms
    assert (loop.score.mean, loop.passed, loop.unscored, loop.failed) == (0.6, 0.0, 1, 0)
    assert (loop.trials, loop.tokens, single.unscored) == (2, 100, 0)
    assert found.pairs[0].difference.count == 1
    assert "1 of 2 outputs of loop could not be scored" in found.warnings[-1]
    rows = csv_of(HELD_OUT, trials, ["a", "b"]).splitlines()
    assert rows[3].startswith("b,1,loop,,0.9,,")
    assert rows[3].endswith(",0,,the judge gave no score")


def test_an_arm_of_which_nothing_could_be_scored_has_a_row() -> None:
    trials = [trial("loop", n, 0.9, judged="j", why="no score") for n in range(2)]
    trials += [trial("single", n, 0.5, held_out=0.2) for n in range(2)]
    found = made(trials, HELD_OUT)
    assert (found.arms[0].unscored, found.arms[0].score.count) == (2, 0)
    assert not found.arms[0].on_frontier
    assert found.pairs[0].difference.count == 0


def test_an_output_without_any_score_did_not_fail() -> None:
    """An agent has no rubric of its own: without the judge's score it has none."""
    (arm, _) = (found := made([trial("loop", 0, None, judged="j", why="none")], HELD_OUT)).arms
    assert (arm.unscored, arm.failed, arm.failures) == (1, 0, ())
    assert [told for told in found.warnings if "score of 0" in told] == []


def test_a_loop_without_a_draft_is_no_output_that_nobody_could_score() -> None:
    (arm, _) = made([trial("loop", 0, None, outcome="out_of_budget", steps=())], HELD_OUT).arms
    assert (arm.unscored, arm.failed) == (0, 1)


def test_no_arm_leads_that_brought_nothing() -> None:
    end = NOTHING[1]
    trials = [trial(arm, n, **end) for n in range(6) for arm in ("loop", "single")]  # pyright: ignore[reportArgumentType]
    assert not any(arm.on_frontier for arm in made(trials).arms)


def test_a_run_that_was_stopped_counts_not_at_all() -> None:
    trials = [trial("loop", 0, 0.1, outcome="stopped"), trial("loop", 1, 0.5)]
    arm = made(trials).arms[0]
    assert (arm.score.mean, arm.trials, arm.stopped) == (0.5, 1, 1)


def test_only_inputs_that_both_arms_have_are_compared() -> None:
    trials = [trial("loop", entry, 1.0) for entry in range(10)]
    trials += [trial("single", entry, 0.5) for entry in range(5, 12)]
    (pair,) = made(trials).pairs
    assert pair.difference.count == 5
    assert (pair.wins, pair.losses, pair.ties) == (5, 0, 0)


def test_repeats_of_one_input_are_one_value() -> None:
    trials = [
        one.model_copy(update={"repeat": repeat})
        for repeat in range(8)
        for one in (trial("loop", 0, 1.0), trial("single", 0, 0.0))
    ]
    (pair,) = made(trials).pairs
    assert pair.difference.count == 1
    assert "Too few" in pair.sentence


def test_spend_is_in_the_sentence() -> None:
    trials = [
        one
        for entry in range(6)
        for one in (trial("loop", entry, 0.9, tokens=300), trial("single", entry, 0.5))
    ]
    (pair,) = made(trials).pairs
    assert pair.spend == 3.0
    assert "for 3.0 times the tokens" in pair.sentence


@pytest.mark.parametrize(
    ("loop", "single", "words"),
    [
        (0, 0, "where neither used tokens"),
        (300, 0, "where single used no tokens"),
        (0, 300, "where loop used no tokens"),
        (40, 1_000, "for 0.04 times the tokens"),
        (3, 1_000, "for under 0.01 times the tokens"),
        (500, 1_000, "for 0.5 times the tokens"),
        (1_090, 1_000, "at the same spend"),
    ],
)
def test_the_sentence_says_which_arm_used_tokens(loop: int, single: int, words: str) -> None:
    trials = [
        trial(arm, entry, score, tokens=tokens)
        for entry in range(6)
        for arm, score, tokens in (("loop", 0.9, loop), ("single", 0.5, single))
    ]
    (pair,) = made(trials).pairs
    assert f" {words};" in pair.sentence


def test_a_loop_that_learned_its_checker_is_named_first() -> None:
    held = Plan(name="t", arms=ARMS, scoring=Scoring(by="check"))
    trials = [trial("loop", entry, 0.95, held_out=0.4) for entry in range(6)]
    found = made(trials, held)
    assert found.warnings[0].startswith("loop scores itself 0.95, and the held-out score is 0.40")
    assert markdown(found).splitlines()[2].startswith("> **loop scores itself")


def test_labels_say_how_far_the_loops_verdict_can_be_trusted() -> None:
    labels = Plan(name="t", arms=ARMS, scoring=Scoring(by="labels"))
    right = [trial("loop", entry, 1.0, held_out=1.0) for entry in range(6)]
    accepted = [trial("loop", 6 + entry, 1.0, held_out=0.0) for entry in range(2)]
    rejected = [trial("loop", 8 + entry, 0.2, held_out=1.0) for entry in range(2)]
    judge = made([*right, *accepted, *rejected], labels).judge
    assert judge is not None
    assert (judge.outputs, judge.agreement) == (10, 0.6)
    assert (judge.false_accepts, judge.false_rejects) == (1.0, 0.25)


def test_the_frontier_holds_what_no_cheaper_arm_equals() -> None:
    trials = [trial("loop", entry, 0.5, tokens=200) for entry in range(3)]
    trials += [trial("single", entry, 0.5, tokens=100) for entry in range(3)]
    assert [arm.on_frontier for arm in made(trials).arms] == [False, True]


@pytest.mark.parametrize(
    ("loop", "single", "marked"),
    [
        ((Decimal(0), 5_000), (Decimal("0.05"), 5_000), [True, False]),
        ((Decimal(0), 90_000), (Decimal("0.05"), 100), [True, False]),
        ((None, 5_000), (Decimal("0.05"), 100), [False, True]),
        ((None, 100), (Decimal("0.05"), 5_000), [True, False]),
        ((Decimal(0), 100), (Decimal(0), 5_000), [True, False]),
    ],
    ids=["free or paid", "free with more tokens", "unknown, more", "unknown, less", "all free"],
)
def test_all_arms_are_compared_in_one_unit(
    loop: tuple[Decimal | None, int], single: tuple[Decimal | None, int], marked: list[bool]
) -> None:
    trials = [
        trial(arm, entry, 0.8, tokens=tokens, cost_usd=usd)
        for arm, (usd, tokens) in (("loop", loop), ("single", single))
        for entry in range(2)
    ]
    assert [arm.on_frontier for arm in made(trials).arms] == marked


def test_losses_link_the_runs_of_both_arms() -> None:
    trials = [trial("loop", entry, 0.9) for entry in range(6)]
    trials += [trial("single", entry, 0.5) for entry in range(5)] + [trial("single", 5, 1.0)]
    (loss,) = made(trials).losses
    assert (loss.entry, loss.arm, loss.against, loss.by) == ("input 5", "loop", "single", 0.1)
    assert (loss.runs, loss.other_runs) == (("loop-5",), ("single-5",))


def test_an_experiment_without_trials_has_a_report() -> None:
    found = made([], inputs=3)
    assert (found.ended, found.trials) == (0, 6)
    assert "Too few" in found.pairs[0].sentence
    assert svg(found) is None
    assert "| loop |" in markdown(found)


def test_names_of_inputs_are_neither_markup_nor_formulas() -> None:
    trials = [trial("loop", 0, 0.1), trial("single", 0, 0.2), trial("loop", 1, 0.9)]
    trials.append(trial("single", 1, 0.1))
    names = ['=HYPERLINK("http://x")|[x](y)', "plain"]
    found = report(PLAN, trials, id="e", state="ended", entries=names)
    assert r"\[x\](y)" in markdown(found)
    rows = csv_of(PLAN, trials, names).splitlines()
    assert rows[1].startswith("\"'=HYPERLINK")
    assert csv_of(PLAN, trials, [" \u200b=1", "plain"]).splitlines()[1].startswith("' \u200b=1")
    assert len(rows) == 5


def test_the_picture_has_a_line_for_each_arm() -> None:
    drawn = svg(made([trial("loop", 0, 0.5), trial("single", 0, 0.4)]))
    assert drawn is not None
    assert drawn.count("loop</text>") == drawn.count("single</text>") == 1


def test_what_nobody_could_score_is_no_zero_and_says_why() -> None:
    bare = [
        trial(arm, entry, 1.0, held_out=None, why="the check raised: away")
        for arm in ("loop", "single")
        for entry in range(6)
    ]
    found = made(bare, HELD_OUT)
    assert found.arms[0].unscored_why == ("the check raised: away (6)",)
    assert "the check raised: away (6)" in found.warnings[0]
    assert arm_cells(found.arms[0])[1:4] == ("-", "-", "-")
    rows = trial_rows(HELD_OUT, bare, ["007", *"bcdef"])
    assert (rows[0].input, rows[0].score, rows[0].passed, rows[0].counted) == (
        "007", None, None, False,
    )  # fmt: skip


def test_trials_keep_ids_and_exact_costs_on_their_way_through_a_file() -> None:
    names = ["007", "-5", "Größe, 1;50"]
    trials = [trial("loop", entry, 0.1 + entry / 10, tokens=1) for entry in range(3)]
    rows = trial_rows(PLAN, trials, names)
    lines = json_lines_of(PLAN, trials, names).splitlines()
    assert [TrialRow.model_validate_json(line) for line in lines] == rows
    assert [row.input for row in rows] == names
    assert rows[0].cost_usd == Decimal("0.001")
    read = list(csv.DictReader(io.StringIO(csv_of(PLAN, trials, names))))
    assert [one["input"] for one in read] == ["007", "'-5", "Größe, 1;50"]
    assert [float(one["score"]) for one in read] == [row.score for row in rows]


def test_a_difference_that_is_the_same_on_each_input_is_said_so() -> None:
    both = [trial(arm, entry, mark) for entry in range(8) for arm, mark in LOOP_IS_BETTER]
    (pair,) = made(both).pairs
    assert "loop beats single by 0.30, the same on each input, at the same spend" in pair.sentence
    assert [arm_cells(arm)[2] for arm in made(both).arms] == ["-", "-"]
    (pair,) = made([one for one in both if one.entry < 5]).pairs
    assert "can be told: 0.30 on each of 5 inputs" in pair.sentence
    level = [trial(arm, entry, 0.5) for entry in range(8) for arm in ("loop", "single")]
    (pair,) = made(level).pairs
    assert "can be told: 0.00 on each of 8 inputs" in pair.sentence


LOOP_IS_BETTER = (("loop", 0.7), ("single", 0.4))


def test_no_difference_is_larger_than_scores_allow() -> None:
    both = [trial("single", entry, 0.0) for entry in range(14)]
    both += [trial("loop", entry, float(entry > 0)) for entry in range(14)]
    (pair,) = made(both).pairs
    assert pair.difference.high == 1.0
    assert pair.difference.low is not None and 0.7 < pair.difference.low < 0.93


def test_repeats_with_the_same_mean_are_a_tie() -> None:
    # As floats, the two means differ in their last digit.
    scores = {"loop": (0.8, 0.8, 0.8), "single": (0.7, 0.8, 0.9)}
    trials = [
        trial(arm, entry, score).model_copy(update={"repeat": repeat})
        for entry in range(6)
        for arm, of_arm in scores.items()
        for repeat, score in enumerate(of_arm)
    ]
    told = made(trials)
    (pair,) = told.pairs
    assert (pair.wins, pair.losses, pair.ties) == (0, 0, 6)
    assert told.losses == ()
