"""Edits of a specification: merged, bounded by what is done, refused with a place."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.amend_spec import (
    belonging_refusal,
    edit_refusal,
    edited,
    merged,
    unclear_refusal,
    undecided_refusal,
    wordless_refusal,
)
from perdure.domain.run.child_questions import question_of
from perdure.domain.run.control import Control
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import AddInput, Amend, Answer, Pause
from perdure.domain.specs import RUN_SPEC

RUBRIC = [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=3), JSON, max_size=4)


def refine(**more: JsonValue) -> RefineSpec:
    spec = RUN_SPEC.validate_python({"kind": "refine", "goal": "g", "rubric": RUBRIC, **more})
    assert isinstance(spec, RefineSpec)
    return spec


def agent() -> AgentSpec:
    spec = RUN_SPEC.validate_python({"kind": "agent", "goal": "g"})
    assert isinstance(spec, AgentSpec)
    return spec


def test_what_is_not_named_stays() -> None:
    spec = refine(metadata={"label": "l", "team": {"name": "web", "size": 3}})
    after = edited(spec, Amend(metadata={"team": {"size": 4}}))
    assert after.metadata.model_dump() == {"label": "l", "team": {"name": "web", "size": 4}}
    assert after.model_copy(update={"metadata": spec.metadata}) == spec


@pytest.mark.parametrize("spec", [agent(), refine()], ids=["agent", "refine"])
def test_goal_and_limit_are_replaced(spec: AgentSpec | RefineSpec) -> None:
    after = edited(spec, Amend(goal="other", max_iterations=7))
    assert after.goal == "other"
    block = after.agent if isinstance(after, AgentSpec) else after.refine
    assert block.max_iterations == 7


@pytest.mark.parametrize(
    ("spec", "change", "words"),
    [
        (agent(), {"max_iterations": 2}, "3 iterations are complete"),
        (refine(refine={"min_iterations": 4, "max_iterations": 5}), {"max_iterations": 3}, "min_"),
        (agent(), {"metadata": {"label": 5}}, "metadata.label"),
    ],
    ids=["fewer than done", "below the minimum", "no text"],
)
def test_an_impossible_edit_is_refused(
    spec: AgentSpec | RefineSpec, change: dict[str, JsonValue], words: str
) -> None:
    why = edit_refusal(spec, Amend.model_validate(change), completed=3)
    assert why is not None and words in why


def test_metadata_does_not_grow_without_bound() -> None:
    spec: AgentSpec = agent()
    taken = 0
    for number in range(10):
        message = Amend(metadata={f"part {number}": "x" * 60_000})
        if (why := edit_refusal(spec, message, completed=0)) is None:
            spec, taken = edited(spec, message), taken + 1
        else:
            assert why.startswith("metadata: 300,") and "262,144 are allowed" in why
    assert taken == 4
    assert edit_refusal(spec, Amend(goal="other"), completed=0) is None


def test_metadata_that_was_large_at_the_start_may_shrink() -> None:
    spec = refine(metadata={"a": "x" * 300_000, "b": "x" * 300_000})
    assert edit_refusal(spec, Amend(metadata={"a": None}), completed=0) is None
    assert edit_refusal(spec, Amend(goal="other"), completed=0) is None
    assert edit_refusal(spec, Amend(metadata={"c": "more"}), completed=0) is not None


def test_a_limit_may_be_what_is_done() -> None:
    assert edit_refusal(agent(), Amend(max_iterations=3), completed=3) is None


@pytest.mark.parametrize("name", ["started_by", "root_run"])
@pytest.mark.parametrize("value", [None, "agent-mine", {}])
def test_whose_agent_started_a_loop_is_not_edited(name: str, value: JsonValue) -> None:
    why = belonging_refusal(Amend(metadata={"label": "l", name: value}))
    assert why is not None and why.startswith(f"metadata.{name}: ") and "another name" in why


@pytest.mark.parametrize(
    "message", [Amend(metadata={"team": {"started_by": "ann"}}), Amend(goal="other"), Pause()]
)
def test_all_else_leaves_a_loop_where_it_belongs(message: Amend | Pause) -> None:
    assert belonging_refusal(message) is None


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        (Answer(gate="g1", text="1 out of 10"), True),
        (Answer(gate="g1", choice="1", text="star"), True),
        (Answer(gate="g1", text="1, fine"), False),
        (Answer(gate="g2", text="1 out of 10"), False),
        (Answer(gate="g3", text="1 out of 10"), False),
        (Pause(), False),
    ],
)
def test_scores_that_may_mean_another_number_are_unclear(
    message: Answer | Pause, refused: bool
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    question = Gate(id="g2", kind="question", prompt="Good?", choices=(), opened_at=now)
    review = question.model_copy(update={"id": "g1", "kind": "review", "scores": ("tone",)})
    state = Control(gates={"g1": review, "g2": question})
    assert (unclear_refusal(state, message) is not None) is refused


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        (Answer(gate="g1", text="the key is in lib/"), True),
        (Answer(gate="g1", choice="retry", text="the key is in lib/"), False),
        (Answer(gate="g1", choice="end"), False),
        (Answer(gate="g2", text="yes"), False),
        (Answer(gate="g3", text="yes"), False),
        (Pause(), False),
    ],
)
def test_words_alone_settle_no_blocked_gate(message: Answer | Pause, refused: bool) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    question = Gate(id="g2", kind="question", prompt="Good?", choices=(), opened_at=now)
    change = {"id": "g1", "kind": "blocked", "choices": ("retry", "end"), "free_text": True}
    gates = {"g1": question.model_copy(update=change), "g2": question}
    asked = gates.get(message.gate) if isinstance(message, Answer) else None
    below = question_of("r.w1", asked) if asked else None
    for one in (asked, below):
        assert (undecided_refusal(message, one) is not None) is refused


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (AddInput(text=" \n"), "the input is empty"),
        (AddInput(text="\u200b"), "the input is empty"),
        (AddInput(text="-"), None),
        (Answer(gate="g1", text="  "), "gate g1: the answer is empty"),
        (Answer(gate="g1", choice=""), "gate g1: the answer is empty"),
        (Answer(gate="g1", choice="", text="yes"), None),
        (Answer(gate="g1", choice="+"), None),
        (Pause(), None),
    ],
)
def test_blanks_are_no_answer_and_no_input(
    message: AddInput | Answer | Pause, why: str | None
) -> None:
    assert wordless_refusal(message) == why


@given(OBJECTS, OBJECTS)
def test_merging_twice_changes_nothing_more(
    old: dict[str, JsonValue], new: dict[str, JsonValue]
) -> None:
    once = merged(old, new)
    assert merged(once, new) == once
    assert {name for name, value in new.items() if value is not None} <= set(once)


@given(OBJECTS)
def test_merging_nothing_changes_nothing(old: dict[str, JsonValue]) -> None:
    assert merged(old, {}) == old
