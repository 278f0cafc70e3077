"""The one reader: an object is found wherever it stands, and what cannot be understood is told."""

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from perdure.domain.delegation.worker_review import Critique, read_criteria, read_critique
from perdure.domain.foundation.json_extraction import Found
from perdure.domain.llm.requests import StopReason
from perdure.domain.llm.structured_replies import (
    BadReply,
    find_reply,
    read_shape,
    unexpected_fields,
    unfinished_problem,
)
from perdure.domain.memory.learner_reply import read_learnings
from perdure.domain.refine.planning import Plan, read_plan
from perdure.domain.roles.review_reply import read_verdict
from perdure.domain.roles.stage_reply import read_goal

ONE = '{"score": 0.4, "why": "short"}'
BRACES = "if (a) { b } else { c }\n" * 60


class Shape(BaseModel):
    score: float


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ONE, id="alone"),
        pytest.param(f"```json\n{ONE}\n```", id="in a fence"),
        pytest.param(f"I looked at {{it}}.\n{ONE}\nThat is all.", id="between words and braces"),
        pytest.param(f'{{"result": {ONE}}}', id="wrapped"),
        pytest.param(f"[{ONE}]", id="in a list"),
        pytest.param(f"{ONE}\n\n{ONE}", id="given again"),
        pytest.param(f"{BRACES}{ONE}", id="after a page of code"),
        pytest.param(f"{ONE}{BRACES}", id="before a page of code"),
        pytest.param(f'{{"other": 1}}\n{ONE}', id="after another object"),
    ],
)
def test_an_object_is_found_wherever_it_stands(text: str) -> None:
    found = find_reply(text, "score")
    assert isinstance(found, Found) and found.fields == json.loads(ONE)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param('{"score": 0.1}\n{"score": 0.9}', "say different things", id="two"),
        pytest.param('{"score": 0.1, "score": 0.9}', "given twice", id="a name twice"),
        pytest.param('{"score": 0.9, "defects": [{"ti', "cut off", id="cut"),
        pytest.param(f'{ONE}\n{{"score": 0.9, "x": [1,', "cut off", id="whole, then cut"),
        pytest.param('{"scores": 0.9}', "no JSON object with score", id="another name"),
        pytest.param("It scores 0.9.", "no JSON object with score", id="words"),
        pytest.param('{"score": "good"}', "score: found", id="another type"),
    ],
)
def test_what_is_not_understood_is_told(text: str, problem: str) -> None:
    found = read_shape(text, Shape, "score")
    assert isinstance(found, BadReply) and problem in found.problems[0]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("blockers", ["insult"], True),
        ("issues", "it insults the reader", True),
        ("new_findings", [{"title": "x"}], True),
        ("extra", [1], True),
        ("missing_parts", 3, True),
        ("blockers", [], False),
        ("issues", None, False),
        ("note", "fine", False),
        ("overall_score", 0.8, False),
        ("strengths", ["clear"], False),
    ],
)
def test_a_field_that_nobody_asked_for(name: str, value: object, told: bool) -> None:
    fields = json.loads(json.dumps({name: value}))
    assert bool(unexpected_fields(fields, ("score",))) is told


@pytest.mark.parametrize(
    "text",
    [
        '{"score": 0.9, "blockers": ["it deletes data"]}',
        '{"score": 0.9, "defects": "it deletes data"}',
        '{"score": 0.9, "defects": {"title": "it deletes data", "critical": true}}',
        '{"score": 0.9, "defects": [{"title": "it deletes data", "severity": "sev1"}]}',
        '{"score": 0.9, "defects": []} {"score": 0.2, "defects": []}',
    ],
)
def test_a_reviewers_defects_are_never_passed_over(text: str) -> None:
    assert isinstance(read_critique(text), BadReply)


def test_critical_defects_come_first_and_count_without_words() -> None:
    minor = [{"title": f"nit {number}"} for number in range(30)]
    found = read_critique(json.dumps({"score": 0.5, "defects": [*minor, {"critical": True}]}))
    assert isinstance(found, Critique)
    assert [one.title for one in found.critical] == ["a critical defect without words"]


@pytest.mark.parametrize(
    "items",
    [
        [{"number": 1, "met": False}, {"number": 1, "met": True}],
        [{"number": True, "met": True}],
        [{"number": 1, "met": True}, {"number": 2, "met": False}],
        [{"number": 1, "met": True}, "the second one fails"],
        [{"number": 1, "met": 1}],
    ],
)
def test_a_contradicting_answer_about_criteria_is_none(items: list[object]) -> None:
    assert isinstance(read_criteria(json.dumps({"criteria": items}), ("a table",)), BadReply)


@pytest.mark.parametrize(
    "text",
    [
        '{"achieved": false, "rationale": "no test"} or {"achieved": true}',
        '{"achieved": true, "achieved": false}',
        '{"achieved": true, "rationale": "cut of',
        '{"achieved": "yes"}',
    ],
)
def test_an_unclear_goal_judge_says_why(text: str) -> None:
    found = read_goal(text)
    assert not found.achieved and not found.clear
    assert "could not be read" in found.rationale


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NOT_ACHIEVED: two tests fail.", "two tests fail."),
        ("Not achieved. The table has no totals.", "The table has no totals."),
        ("**NOT ACHIEVED** - the page is empty", "the page is empty"),
        ("The totals are wrong, so the goal is not achieved.", "The totals are wrong"),
        ('The totals are wrong. {"achieved": false, "rationale": ""}', "The totals are wrong."),
        ("It renders two of three pages.", "It renders two of three pages."),
    ],
)
def test_a_goal_judge_that_answers_in_text_keeps_its_reason(text: str, reason: str) -> None:
    found = read_goal(text)
    assert not found.achieved and reason in found.rationale


PASSES = '"requirements_met": true, "quality_pass": true'


@pytest.mark.parametrize(
    "text",
    [
        f'{{{PASSES}, "findings": [{{"severity": "sev1", "title": "data loss"}}]}}',
        f'{{{PASSES}, "findings": [{{"severity": "fatal", "title": "data loss"}}]}}',
        f'{{{PASSES}, "findings": [{{"severity": "blocker"}}]}}',
        f'{{{PASSES}, "blockers": ["data loss"]}}',
        f'{{{PASSES}, "issues": [{{"title": "data loss"}}]}}',
        f'{{"requirements_met": false, "quality_pass": true}}\n{{{PASSES}}}',
        f'{{{PASSES}, "findings": [], "quality_pass": false}}',
        f'{{{PASSES}, "findings": [{{"severity": "blocker", "ti',
    ],
)
def test_a_review_with_something_open_never_approves(text: str) -> None:
    verdict = read_verdict(text)
    assert not verdict.approved
    assert verdict.problems or verdict.open_findings


def test_plans_and_lessons_are_found_beside_other_objects() -> None:
    plan = read_plan('Like {"this": 1}:\n{"steps": [{"title": "look"}], "risks": []}\n{done}')
    assert isinstance(plan, Plan) and plan.steps[0].title == "look"
    lessons = read_learnings('{"learnings": [{"text": "test first"}]} and {"more": 1}')
    assert not isinstance(lessons, BadReply) and lessons[0].text == "test first"


@given(st.text(max_size=200) | st.text('{}[]":,score019.\\`\n ', max_size=120))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = read_shape(text, Shape, "score")
    assert isinstance(found, Shape) or found.problems


ENDED = ("end_turn", "tool_use", "stop_sequence", "refusal")


@pytest.mark.parametrize("reason", get_args(StopReason))
def test_a_reply_that_did_not_come_to_its_end_is_none(reason: StopReason) -> None:
    """A whole object before a pause, or before the cut, is no answer either."""
    found = unfinished_problem(reason)
    assert (found is None) == (reason in ENDED)
    if found is not None:
        assert "before its end" in found.problems[0]
