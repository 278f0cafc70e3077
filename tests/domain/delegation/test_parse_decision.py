"""Whatever shape a manager gives its decision, it is read as one of six, or refused with why."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue

from perdure.domain.delegation.decisions import (
    Complete,
    Delegate,
    Diagnose,
    Escalate,
    Fail,
    MakePlan,
    ManagerDecision,
)
from perdure.domain.delegation.normalize_decision import decision_named
from perdure.domain.delegation.parse_decision import read_decision
from perdure.domain.llm.structured_replies import BadReply

WORK = {"worker": "w1", "instructions": "Count the words."}
STEP = {"id": "s1", "title": "Read"}
GUESS = {"id": "h1", "statement": "The file is empty", "test": "Look at its size"}
DELEGATE = json.dumps({"decision": "delegate", "reason": "r", "delegations": [WORK]})
PLAN = json.dumps({"decision": "plan", "subtasks": [STEP]})
COMPLETE = json.dumps({"decision": "complete", "final_result": "All read."})


def read(text: str) -> ManagerDecision:
    found = read_decision(text)
    assert not isinstance(found, BadReply), found.problems
    return found


SHAPES: dict[str, tuple[str, type[BaseModel]]] = {
    "plain": (DELEGATE, Delegate),
    "in a fence": (f"Here it is:\n```json\n{PLAN}\n```\nAs asked.", MakePlan),
    "in a fence without a language": (f"```\n{COMPLETE}\n```", Complete),
    "between words": (f"I decide {COMPLETE} because it is done.", Complete),
    "after an object that decides nothing": (f'{{"note": 1}} then {PLAN}', MakePlan),
    "the fence outranks what stands before": (f"{COMPLETE}\n```json\n{PLAN}\n```", MakePlan),
    "the decision is an object": (
        json.dumps({"decision": {"type": "delegate", "delegations": [WORK]}}),
        Delegate,
    ),
    "named by action": (json.dumps({"action": "delegate", "delegations": [WORK]}), Delegate),
    "one delegation without a list": (
        json.dumps({"decision": "delegate", "delegations": WORK}),
        Delegate,
    ),
    "delegations as texts": (
        json.dumps({"decision": "delegate", "delegations": ["Count the words."]}),
        Delegate,
    ),
    "inferred from subtasks": (json.dumps({"subtasks": [STEP]}), MakePlan),
    "inferred from hypotheses": (json.dumps({"hypotheses": [GUESS]}), Diagnose),
    "inferred from delegations": (json.dumps({"delegations": [WORK]}), Delegate),
    "inferred from a final result": (json.dumps({"final_result": {"a": 1}}), Complete),
    "inferred from a report": (json.dumps({"report": "All is well"}), Complete),
    "inferred from a summary": (json.dumps({"summary": "All is well"}), Complete),
    "subtasks before delegations": (
        json.dumps({"delegations": [WORK], "subtasks": [STEP]}),
        MakePlan,
    ),
    "hypotheses before delegations": (
        json.dumps({"delegations": [WORK], "hypotheses": [GUESS]}),
        Diagnose,
    ),
    "delegations before a summary": (
        json.dumps({"summary": "so far", "delegations": [WORK]}),
        Delegate,
    ),
    "empty lists mean nothing": (
        json.dumps({"subtasks": [], "hypotheses": [], "delegations": [WORK]}),
        Delegate,
    ),
    "the field outranks what it looks like": (
        json.dumps({"decision": "complete", "subtasks": [STEP], "final_result": "x"}),
        Complete,
    ),
    "a complete decision in words": ("DECISION: complete\nThe report is ready.", Complete),
    "a bold decision in words": ("**Decision**: finished\n\nThe report is ready.", Complete),
    "an opening word": ("Impossible: the folder is empty.", Fail),
    "a question in words": ("Decision: escalate\nWhich year is meant?", Escalate),
    "escalate": (json.dumps({"decision": "escalate", "question": "Which?"}), Escalate),
    "fail": (json.dumps({"decision": "fail", "why": "no data"}), Fail),
    "unknown fields do no harm": (
        json.dumps({"decision": "plan", "subtasks": [STEP | {"effort": 3}], "mood": "good"}),
        MakePlan,
    ),
}


@pytest.mark.parametrize(("text", "kind"), SHAPES.values(), ids=SHAPES)
def test_each_shape_is_read(text: str, kind: type[BaseModel]) -> None:
    assert isinstance(read(text), kind)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("delegate", "delegate"),
        ("DELEGATION", "delegate"),
        ("assign", "delegate"),
        ("assigning work", "delegate"),
        ("re-delegate", "delegate"),
        ("done", "complete"),
        ("finish", "complete"),
        ("Finished.", "complete"),
        ("final", "complete"),
        ("completed", "complete"),
        ("task_complete", "complete"),
        ("planning", "plan"),
        ("replan", "plan"),
        ("make a plan", "plan"),
        ("hypothesize", "diagnose"),
        ("diagnosis", "diagnose"),
        ("impossible", "fail"),
        ("failed", "fail"),
        ("escalate to a person", "escalate"),
        ("delegate and then complete", "delegate"),
        ("complete the plan", "complete"),
        ("plan a diagnosis", "plan"),
        ("diagnose the failure", "diagnose"),
        ("not done, plan again", "plan"),
        ("plane", None),
        ("incomplete", None),
        ("banana", None),
        ("", None),
    ],
)
def test_words_stand_for_decisions_in_a_fixed_order(said: str, name: str | None) -> None:
    assert decision_named(said) == name


UNREADABLE: dict[str, tuple[str, str]] = {
    "nothing": ("", "no JSON object"),
    "prose that mentions a plan": ("I think a plan would help, then delegate.", "no JSON object"),
    "an unknown decision": ('{"decision": "banana"}', 'found "banana"; allowed: one of delegate'),
    "an unknown decision is not inferred": (
        json.dumps({"decision": "banana", "delegations": [WORK]}),
        'found "banana"',
    ),
    "nothing to infer from": ('{"note": 1}', "decision: found nothing"),
    "a delegation without instructions": (
        json.dumps({"decision": "delegate", "delegations": [{"worker": "w1"}]}),
        "delegations[0].instructions",
    ),
    "nothing delegated": ('{"decision": "delegate", "delegations": []}', "delegations"),
    "eleven subtasks": (
        json.dumps({"decision": "plan", "subtasks": [STEP] * 11}),
        "at most 10 items",
    ),
    "a hypothesis without a test": (
        json.dumps({"decision": "diagnose", "hypotheses": [{"statement": "x"}]}),
        "hypotheses[0].test",
    ),
    "instructions of which people see nothing": (
        json.dumps({"delegations": [WORK | {"instructions": "---"}]}),
        "delegations[0].instructions",
    ),
    "a guess of which people see nothing": (
        json.dumps({"hypotheses": [GUESS | {"statement": "\u200b"}]}),
        "hypotheses[0].statement",
    ),
    "a test of which people see nothing": (
        json.dumps({"hypotheses": [GUESS | {"test": "```\n```"}]}),
        "hypotheses[0].test",
    ),
    "a question without words": ('{"decision": "escalate"}', "question"),
    "a choice that would end the run": (
        json.dumps({"decision": "escalate", "question": "The offer?", "choices": ["no", "Accept"]}),
        'choices: found "Accept"; allowed: other words, since accept and stop end the run.',
    ),
    "a choice that hides such a word": (
        json.dumps({"decision": "escalate", "question": "Go?", "choices": ["st\u200bop"]}),
        "since accept and stop end the run.",
    ),
    "a delegation in words": ("Decision: delegate\nto w1", "as a JSON object"),
    "a list": ("[1, 2]", "no JSON object"),
    "a result that was cut off": (
        '{"decision": "complete", "confidence": 0.9, "final_result": "The first',
        "final_result: the reply was cut off",
    ),
}


@pytest.mark.parametrize(("text", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_is_refused_with_the_reason(text: str, said: str) -> None:
    found = read_decision(text)
    assert isinstance(found, BadReply)
    assert said in " ".join(found.problems)


def test_other_names_of_fields_are_understood() -> None:
    found = read(
        json.dumps(
            {
                "decision": "assign",
                "rationale": "it is time",
                "delegations": [
                    {
                        "worker_id": 7,
                        "task": " Count. ",
                        "subtask_id": "s1",
                        "expected_output": "a number",
                        "acceptance_criteria": ["exact", "fast"],
                        "inputs": [{"name": "file", "value": "a.txt"}],
                        "tools_requested": ["fs.read", ""],
                        "skills": [{"name": "counting"}, "  ", {"markdown": "# Skill: x"}],
                        "temperature": 9,
                        "output_schema": '{"type": "object"}',
                        "budget_fraction": 0.5,
                        "role": "manager",
                        "priority": "HIGH",
                    }
                ],
            }
        )
    )
    assert isinstance(found, Delegate)
    assert found.reason == "it is time"
    assert found.delegations[0].model_dump() == {
        "worker": "7",
        "instructions": "Count.",
        "subtask": "s1",
        "expected": "a number",
        "acceptance": "exact; fast",
        "inputs": {"file": "a.txt"},
        "tools": ("fs.read",),
        "skills": ("counting", "# Skill: x"),
        "inherit": (),
        "model": None,
        "temperature": 2.0,
        "result_schema": {"type": "object"},
        "budget_share": 0.5,
        "sub_manager": True,
        "priority": "high",
    }


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0.2, 0.2), (-1, 0.0), (2.0, 2.0), (2.5, 2.0), ("hot", 0.2), (None, 0.2), (True, 0.2)],
)
def test_temperatures_are_clamped(given: JsonValue, kept: float) -> None:
    found = read(json.dumps({"delegations": [WORK | {"temperature": given}]}))
    assert isinstance(found, Delegate)
    assert found.delegations[0].temperature == kept


def test_no_item_of_a_list_is_dropped_for_its_form() -> None:
    first, second = {"id": 1.0, "title": "x"}, {"id": 2.0, "title": "y", "depends_on": [1.0]}
    plan = read_decision(json.dumps({"decision": "plan", "subtasks": [first, second]}))
    assert isinstance(plan, MakePlan)
    assert [item.depends_on for item in plan.subtasks] == [(), ("1.0",)]
    offered = [{"label": "blue"}, {"value": "red"}]
    asked = read_decision(
        json.dumps({"decision": "escalate", "question": "Which?", "choices": offered})
    )
    assert isinstance(asked, Escalate)
    assert asked.choices == ("blue", "red")


def test_only_the_first_three_hypotheses_are_kept() -> None:
    guesses = [GUESS | {"id": f"h{number}"} for number in range(1, 6)]
    found = read(json.dumps({"hypotheses": guesses}))
    assert isinstance(found, Diagnose)
    assert [guess.id for guess in found.hypotheses] == ["h1", "h2", "h3"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0.9, 0.9), (1, 1.0), ("high", 0.8), ("low", 0.2), ("85%", 0.85), (None, None)],
)
def test_a_claimed_confidence_is_understood_as_models_write_it(
    given: JsonValue, kept: float | None
) -> None:
    found = read(json.dumps({"decision": "complete", "final_result": "x", "confidence": given}))
    assert isinstance(found, Complete)
    assert found.confidence == kept


@pytest.mark.parametrize("given", [7, True, -0.1, "sure enough", [0.5], "7"], ids=str)
def test_a_claimed_confidence_that_nobody_can_read_is_asked_for_again(given: JsonValue) -> None:
    reply = {"decision": "complete", "final_result": "x", "confidence": given}
    found = read_decision(json.dumps(reply))
    assert isinstance(found, BadReply)
    assert found.problems[0].startswith("confidence: found")


def test_a_result_that_is_json_in_a_text_is_json() -> None:
    found = read(json.dumps({"decision": "complete", "final_result": '{"words": 7}'}))
    assert isinstance(found, Complete)
    assert found.final_result == {"words": 7}


@pytest.mark.parametrize(
    ("text", "workers"),
    [
        ('{"decision": "delegate", "delegations": [{"worker": "a", "instructions": "x"}', ["a"]),
        (
            '{"decision": "delegate", "delegations": [{"worker": "a", "instructions": "x"}, '
            '{"worker": "b", "instructions": "write half of',
            ["a"],
        ),
        (
            '```json\n{"decision": "delegate", "delegations": [{"worker": "a", '
            '"instructions": "x, {y}"}, {"worker": "b"',
            ["a"],
        ),
    ],
    ids=["brackets missing", "inside a text", "inside a fence"],
)
def test_of_a_cut_reply_only_what_is_whole_counts(text: str, workers: list[str]) -> None:
    found = read(text)
    assert isinstance(found, Delegate)
    assert [envelope.worker for envelope in found.delegations] == workers


def test_half_an_instruction_is_not_carried_out() -> None:
    text = '{"decision": "delegate", "delegations": [{"worker": "a", "instructions": "delete no'
    assert isinstance(read_decision(text), BadReply)


DECISIONS = st.sampled_from([DELEGATE, PLAN, COMPLETE])


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = read_decision(text)
    assert not isinstance(found, BadReply) or found.problems


@given(DECISIONS, st.text(alphabet="abc \n.:#*-", max_size=40), st.data())
def test_every_prefix_is_read_or_refused_and_the_whole_is_read(
    text: str, words: str, data: st.DataObject
) -> None:
    cut = data.draw(st.integers(min_value=0, max_value=len(text)))
    found = read_decision(f"{words}{text[:cut]}")
    assert not isinstance(found, BadReply) or found.problems
    assert read_decision(f"{words}{text}{words}") == read_decision(text)


def test_hostile_texts_take_no_time() -> None:
    for text in ("{" * 300_000, '{"a":' * 100_000, '{"a": "' + "\\" * 300_000, "```\n" * 90_000):
        assert isinstance(read_decision(text), BadReply)
