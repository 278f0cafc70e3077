"""Plans: read from a reply, shown to models and people, and refined from open findings."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding, Severity
from perdure.domain.llm.structured_replies import BadReply
from perdure.domain.refine.planning import (
    MAX_STEP_CHARACTERS,
    MOST_STEPS,
    Plan,
    PlanStep,
    plan_choice,
    plan_lines,
    plan_text,
    planner_prompt,
    read_plan,
    with_fix_steps,
)

PLAN = Plan(steps=(PlanStep(title="Draft", acceptance="60 words"),), risks=("too long",))


def _finding(number: int, severity: Severity = "important", fix: str = "do it") -> Finding:
    return Finding(id=f"F{number}", severity=severity, dimension="d", title=f"T{number}", fix=fix)


def _evaluation(*findings: Finding) -> Evaluation:
    score = DimensionScore(name="d", score=0.5, source="judge", findings=findings)
    return Evaluation(dimensions=(score,))


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": [{"title": "Draft", "acceptance": "60 words"}], "risks": ["too long"]}',
        'Here you are:\n```json\n{"steps": [{"title": "Draft", "acceptance": "60 words"}], '
        '"risks": ["too long"], "mood": "good"}\n```',
    ],
    ids=["bare", "fenced, with more than was asked"],
)
def test_a_plan_is_read(text: str) -> None:
    assert read_plan(text) == PLAN


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "JSON object"),
        ("First I would draft it.", "JSON object"),
        ("{steps: 1}", "no JSON"),
        ('{"steps": []}', "steps"),
        ('{"steps": [{"acceptance": "x"}]}', "steps[0].title"),
        ('{"steps": "draft"}', "steps"),
        ("{" * 50_000 + "}" * 50_000, "no JSON"),
    ],
)
def test_what_is_no_plan(text: str, problem: str) -> None:
    read = read_plan(text)
    assert isinstance(read, BadReply)
    assert problem in read.problems[0]


@given(st.lists(st.text(min_size=1, max_size=600), min_size=1, max_size=40))
def test_a_plan_stays_short(titles: list[str]) -> None:
    read = read_plan(json.dumps({"steps": [{"title": title} for title in titles]}))
    assert isinstance(read, Plan)
    assert len(read.steps) == min(len(titles), MOST_STEPS)
    assert all(len(step.title) <= MAX_STEP_CHARACTERS for step in read.steps)


def test_fix_steps_come_from_open_findings_and_replace_earlier_ones() -> None:
    first = with_fix_steps(
        PLAN, _evaluation(_finding(1), _finding(2, "blocker"), _finding(3, fix=""))
    )
    assert [step.finding for step in first.steps] == [None, "F2", "F1"]
    second = with_fix_steps(first, _evaluation(_finding(4), _finding(5, "suggestion")))
    assert [step.finding for step in second.steps] == [None, "F4"]
    assert with_fix_steps(second, _evaluation()) == PLAN
    assert with_fix_steps(second, None) == second


def test_a_plan_in_words() -> None:
    plan = with_fix_steps(PLAN, _evaluation(_finding(1)))
    assert plan_text(plan) == snapshot(
        "1. Draft (done when: 60 words)\n2. do it (done when: T1)\nRisk: too long"
    )
    assert plan_lines(plan) == ("Draft", "fix: do it")
    assert plan_text(Plan()) == ""


def test_what_the_planner_is_asked() -> None:
    asked = planner_prompt("Write it.", tools=["fs.read"], problems=["steps: found nothing"])
    assert asked == snapshot(
        """\
The task:
Write it.

Tools at hand: fs.read

Your first reply could not be used:
- steps: found nothing
Reply again, whole.\
"""
    )


@pytest.mark.parametrize(
    ("mode", "iterations", "answer", "small", "wanted"),
    [
        ("auto", 3, False, False, True),
        ("auto", 1, False, False, False),
        ("auto", 3, True, False, False),
        ("auto", 3, False, True, False),
        ("on", 1, False, True, True),
        ("on", 3, True, False, False),
        ("off", 3, False, False, False),
    ],
)
def test_when_a_plan_is_made(
    mode: str, iterations: int, answer: bool, small: bool, wanted: bool
) -> None:
    made, why_not = plan_choice(
        mode,  # type: ignore[arg-type]
        max_iterations=iterations,
        answer_only=answer,
        small_model=small,
    )
    assert made is wanted
    assert bool(why_not) is not wanted
