"""IFBench: which prompts are drawn, what each arm is given, and what the report says of trials."""

import argparse
from collections.abc import Generator
from pathlib import Path

import pytest

from benchmarks.ifbench.__main__ import experiment
from benchmarks.ifbench.checks import PYTHON, CheckerProcess, Prompt, checkers, follows
from benchmarks.ifbench.report import Trials, wilson, write_report
from benchmarks.ifbench.sample import DEVELOPMENT, REPORTED, Sample, draw
from perdure import CheckResult
from perdure.submission.experiments import experiment_of
from perdure.submission.types import Surroundings

HEAD = (
    "input,repeat,arm,score,own_score,held_out,passed,outcome,tokens,cost_usd,seconds,"
    "model_calls,tries,run,counted\n"
)
ARMS = ("loop", "single", "same_calls", "same_tokens")
built = pytest.mark.skipif(not PYTHON.exists(), reason="make bench-ifbench builds its environment")


def prompt(number: int, **changed: object) -> Prompt:
    given: dict[str, object] = {
        "key": str(number),
        "prompt": f"Say it {number} times.",
        "ids": ["count:numbers"],
        "descriptions": [f"Include exactly {number} numbers."],
        "arguments": [{"N": number}],
    }
    return Prompt.model_validate({**given, **changed})


PROMPTS = [prompt(number) for number in range(200)]


def options(**changed: object) -> argparse.Namespace:
    given: dict[str, object] = {
        "model": "local", "prompts": 6, "seeds": 1, "iterations": 3, "parallel": 2,
        "max_output_tokens": None, "part": "reported", "usd": None, "run_usd": 0.5,
    }  # fmt: skip
    return argparse.Namespace(**{**given, **changed})


def row(key: str, arm: str, score: float, *, outcome: str = "accepted", counted: int = 1) -> str:
    passed = int(score >= 1)
    return f"{key},1,{arm},{score},{score},,{passed},{outcome},90,0,1.0,2,1,run,{counted}\n"


def test_the_two_samples_are_always_the_same_and_share_no_prompt() -> None:
    reported = draw(PROMPTS, part="reported", count=REPORTED).prompts
    development = draw(PROMPTS[::-1], part="development", count=DEVELOPMENT).prompts
    assert not {one.key for one in reported} & {one.key for one in development}
    assert draw(PROMPTS[::-1], part="reported", count=10).prompts == reported[:10]


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": "word " * 81},
        {"ids": ["count:word_count_range"], "arguments": [{"min_words": 150, "max_words": 160}]},
        {"ids": ["count:unique_word_count"], "arguments": [{"N": 151}]},
    ],
    ids=["a long prompt", "a long answer", "many words"],
)
def test_prompts_that_a_small_model_cannot_hold_are_not_drawn(changed: dict[str, object]) -> None:
    assert draw([*PROMPTS, prompt(200, **changed)], part="reported", count=1).eligible == 200


@pytest.mark.parametrize("count", [0, REPORTED + 1])
def test_more_prompts_than_there_are_cannot_be_drawn(count: int) -> None:
    with pytest.raises(ValueError, match=f"found {count}; allowed: 1 to {REPORTED}"):
        draw(PROMPTS, part="reported", count=count)


def test_every_arm_gets_the_prompt_as_its_goal_and_nothing_else() -> None:
    two = {
        "ids": ["count:numbers", "count:numbers"],
        "descriptions": ["Include 1.", "Include 2."],
        "arguments": [{"N": 1}, {"N": 2}],
    }
    sample = Sample([prompt(1), prompt(2, **two)], 2)
    made = experiment_of(experiment(sample, options()), surroundings=Surroundings(folder=None))
    assert [arm.name for arm in made.plan.arms] == list(ARMS)
    assert [entry.goal for entry in made.entries] == [one.prompt for one in sample.prompts]
    rubric = made.entries[1].fields["rubric"]
    assert rubric == [
        {
            "name": f"{number}. count:numbers",
            "secret": True,
            "evaluator": {"check": "ifbench.follows", "key": "2", "instruction": number - 1},
        }
        for number in (1, 2)
    ]


def test_the_report_compares_the_prompts_that_every_arm_has_run(tmp_path: Path) -> None:
    rows = tmp_path / "trials.csv"
    lines = [
        row(str(key), arm, 1.0 if arm == "loop" or key == 0 else 0.5)
        for key in range(6)
        for arm in ARMS
    ]
    unfinished = [row("6", "loop", 0.0), row("6", "single", 0.0, counted=0)]
    rows.write_text(HEAD + "".join([*lines, *unfinished]), encoding="utf-8")
    trials = Trials.read(rows, {str(key): 1 + key % 2 for key in range(7)})
    assert trials.keys == [str(key) for key in range(6)]
    assert set(trials.prompt_level("loop").values()) == {1.0}
    assert sum(trials.prompt_level("single").values()) == 1
    # 3 prompts of one instruction and 3 of two: (1 + 2 * 0.5 + 3 * 2 * 0.5) of 9.
    followed = trials.instruction_level("single").values()
    assert sum(one for one, _ in followed) / sum(count for _, count in followed) == 5 / 9

    write_report(tmp_path / "report.md", trials, Sample(PROMPTS[:6], 200), options())
    told = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "the first 6 of 6 prompts, one repeat" in told
    assert "| loop | 1.000 | 0.610 to 1.000 | 1.000 | 0.610 to 1.000 | 2.00 | 90 | 0 |" in told
    assert "loop less single: prompts +0.833" in told


@pytest.mark.parametrize(
    ("share", "count", "low", "high"),
    [(0.0, 10, 0.0, 0.278), (0.5, 100, 0.404, 0.596), (1.0, 10, 0.722, 1.0)],
    ids=["none", "half", "all"],
)
def test_a_share_has_an_interval_even_where_all_prompts_are_alike(
    share: float, count: int, low: float, high: float
) -> None:
    assert wilson(share, count) == pytest.approx((low, high), abs=0.001)


@pytest.fixture
def asked() -> Generator[CheckerProcess]:
    """The checkers in their own process, which ends with the test."""
    yield checkers()
    checkers().close()


@built
def test_a_check_names_the_instruction_that_is_not_followed(asked: CheckerProcess) -> None:
    one = next(one for one in asked.prompts.values() if one.ids == ["format:output_template"])
    right = "My Answer: a My Conclusion: b Future Outlook: c"
    missed = CheckResult(score=0.0, detail=f"not followed: {one.descriptions[0]}")
    assert follows(right, key=one.key, instruction=0) == CheckResult(score=1.0)
    assert follows("An answer.", key=one.key, instruction=0) == missed
    assert follows("", key=one.key, instruction=0) == missed
