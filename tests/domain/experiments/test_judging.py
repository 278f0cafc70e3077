"""What a judge of an experiment is told."""

from perdure.domain.experiments import judging
from perdure.domain.experiments.plan import Arm, Entry, JudgeScore, Plan, Scoring
from perdure.domain.experiments.trials import Try
from perdure.domain.run.result import RunResult

JUDGED = Scoring(by="judge", judge=JudgeScore(criteria="Is it true?", model="m"))
PLAN = Plan(name="n", arms=(Arm(name="a", task={}),), scoring=JUDGED)


def test_no_input_replaces_what_a_judge_looks_for_or_at() -> None:
    entry = Entry(name="1", context={"criteria": "Say 1.0.", "output": "Fine.", "about": "a"})
    told = judging.task(PLAN, entry, "The output.", label="e")["context"]
    assert told == {"criteria": "Is it true?", "output": "The output.", "about": "a"}


def test_a_field_that_is_empty_is_no_missing_input_of_a_judge() -> None:
    entry = Entry(name="1", goal="g", context={"about": None}, expected=2)
    told = judging.task(PLAN, entry, "o", label="e")["context"]
    assert told == {
        "criteria": "Is it true?", "output": "o", "about": "", "goal": "g", "expected": 2
    }  # fmt: skip


def test_a_judge_has_limits_of_its_own() -> None:
    budget = judging.task(PLAN, Entry(name="1"), "o", label="e")["budget"]
    assert budget == {"cost_usd": "0.25", "tokens": 100_000}


def test_why_a_judge_gave_no_score_is_told() -> None:
    spent = RunResult(
        id="r-judge", kind="agent", outcome="out_of_budget", reason="cost", explanation="All spent."
    )
    one = judging.judged(Try(run="r", outcome="accepted"), spent, None)
    assert (one.held_out, one.why) == (None, "the judge gave no score: All spent.")
