"""The goal judge: anything but a plain yes is not achieved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.roles.stage_reply import read_goal

ACHIEVED = {
    "structured": '{"achieved": true, "rationale": "all tests pass"}',
    "structured in a fence": '```json\n{"achieved": true}\n```',
    "word": "ACHIEVED",
    "label": "Verdict: ACHIEVED",
    "sentence": "The goal is achieved.",
    "perfect": "The goal has been achieved: every test passes.",
    "yes": "Yes, the goal is achieved.",
    "underscore": "GOAL_ACHIEVED",
    "bold": "**ACHIEVED** - the page renders.",
    "label of the goal": "Goal: achieved",
}
NOT_ACHIEVED = {
    "structured": '{"achieved": false, "rationale": "two tests fail"}',
    "structured text": '{"achieved": "true"}',
    "structured number": '{"achieved": 1}',
    "structured null": '{"achieved": null}',
    "word": "NOT_ACHIEVED",
    "two words": "Not achieved.",
    "not yet": "The goal is not yet achieved.",
    "cannot": "The goal cannot be achieved.",
    "nearly": "The goal is nearly achieved.",
    "partly": "Partially achieved.",
    "condition": "The goal is achieved once the tests pass.",
    "question": "Is the goal achieved?",
    "quoted": 'Answer "ACHIEVED" when it is done.',
    "told": "The coder says the goal is achieved.",
    "both": "ACHIEVED or NOT_ACHIEVED",
    "both in lines": "ACHIEVED\n\nNOT ACHIEVED",
    "demand": "ACHIEVED\n\nThe tests still fail.",
    "contradicted": 'NOT ACHIEVED\n{"achieved": true}',
    "something is missing": '{"achieved": true, "missing": ["tests"]}',
    "something fails": '{"achieved": true, "failing": "two tests"}',
    "a state that says no": '{"achieved": true, "status": "incomplete"}',
    "not complete": '{"achieved": true, "complete": false}',
    "a verdict that says no": '{"achieved": true, "verdict": "not yet"}',
    "quoted structure": 'The team says {"achieved": true} but shows nothing.',
    "nothing": "",
    "something else": "It works well.",
    "improved": "Good progress was achieved on the parser.",
}


@pytest.mark.parametrize("text", ACHIEVED.values(), ids=ACHIEVED)
def test_a_plain_yes_is_achieved(text: str) -> None:
    verdict = read_goal(text)
    assert (verdict.achieved, verdict.clear) == (True, True)


@pytest.mark.parametrize("text", NOT_ACHIEVED.values(), ids=NOT_ACHIEVED)
def test_everything_else_is_not(text: str) -> None:
    assert not read_goal(text).achieved


@pytest.mark.parametrize("text", ["NOT_ACHIEVED", '{"achieved": false}'])
def test_a_plain_no_is_clear(text: str) -> None:
    assert read_goal(text).clear


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NOT_ACHIEVED: two tests fail.", "two tests fail."),
        ("**NOT ACHIEVED** - the page is blank", "the page is blank"),
        ("Verdict: NOT_ACHIEVED\n\nNobody tested it.", "Nobody tested it."),
        ("The parser is missing.\n\nNOT_ACHIEVED", "The parser is missing. NOT_ACHIEVED"),
        ("The goal is not yet achieved: no table.", "The goal is not yet achieved: no table."),
        ("ACHIEVED. Every test passes.", "Every test passes."),
        ("It works, but I cannot tell.", "It works, but I cannot tell."),
        ('No table.\n{"achieved": false}', "No table."),
        ('{"achieved": false, "rationale": " No table. "}', "No table."),
        ('Look:\n{"achieved": false, "rationale": "No table."}', "No table."),
        ('{"achieved": false, "reason": "No table."}', "No table."),
        ('{"achieved": false, "why": "No table."}', "No table."),
        ('{"achieved": false, "explanation": "No table."}', "No table."),
        ('{"achieved": false, "reasoning": "No table."}', "No table."),
    ],
    ids=[
        "a word and a colon", "bold", "a label", "the word at the end", "a sentence",
        "achieved", "unclear", "beside a structure without one", "structured", "structured wins",
        "reason", "why", "explanation", "reasoning",
    ],
)  # fmt: skip
def test_a_judge_loses_its_reason_in_no_form(text: str, reason: str) -> None:
    assert read_goal(text).rationale == reason


@given(text=st.one_of(st.text(), st.sampled_from(sorted(ACHIEVED.values()))))
def test_what_is_taken_back_is_not_achieved(text: str) -> None:
    assert not read_goal(f"{text}\n\nNOT ACHIEVED").achieved
