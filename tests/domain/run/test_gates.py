"""Open questions to people: which answers count."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.run import gate_lifecycle
from perdure.domain.run.control import NOTES_KEPT, Control, apply_verb
from perdure.domain.run.gates import (
    CHOICES,
    Gate,
    GateKind,
    GateSettings,
    expiry_choice,
    read_name,
    refusal,
)
from perdure.domain.run.messages import Answer
from perdure.domain.tools.definitions import arguments_hash

NOW = datetime(2026, 5, 4, tzinfo=UTC)
HASH = "a" * 64


def gate(kind: GateKind = "tool_approval", **more: object) -> Gate:
    values = {
        "id": "g1",
        "kind": kind,
        "prompt": "?",
        "choices": CHOICES[kind],
        "opened_at": NOW,
        **more,
    }
    return Gate.model_validate(values)


APPROVAL = gate(args_hash=HASH, free_text=True)


@pytest.mark.parametrize(
    ("asked", "answer", "why"),
    [
        (None, {"choice": "approve"}, "there is no gate 'g1'"),
        (APPROVAL, {"choice": "approve", "args_hash": HASH}, None),
        (APPROVAL, {"choice": "approve", "args_hash": "b" * 64}, "other arguments"),
        (APPROVAL, {"choice": "approve"}, f"the gate as g1-aaaa, or args_hash {HASH}"),
        (APPROVAL, {"choice": "approve", "named": "g1-aaaa"}, None),
        (APPROVAL, {"choice": "approve", "named": " G1-AAAAAAAA "}, None),
        (APPROVAL, {"choice": "approve", "named": f"g1-{HASH}"}, None),
        (APPROVAL, {"choice": "approve", "named": "g1-aaab"}, "look at g1-aaaa before you answer"),
        (APPROVAL, {"choice": "deny", "named": "g1-bbbb"}, "other arguments"),
        (APPROVAL, {"choice": "approve", "named": "g1-aaaa", "args_hash": "b" * 64}, "other"),
        (APPROVAL, {"choice": "approve", "named": "g1-aaaab"}, "other arguments"),
        (gate("escalation"), {"choice": "continue", "named": "g1-aaaa"}, "no gate 'g1-aaaa'"),
        (APPROVAL, {"choice": "deny"}, None),
        (APPROVAL, {"choice": "deny", "args_hash": "b" * 64}, "other arguments"),
        (APPROVAL, {"choice": "Approve", "args_hash": HASH}, "is not one of approve, deny"),
        (gate("escalation"), {"choice": "continue"}, None),
        (gate("escalation"), {"text": "go on"}, "needs continue, accept, stop"),
        (gate("escalation", free_text=True), {"text": "go on"}, None),
        (gate("question", free_text=True), {"text": "tea"}, None),
        (gate("question", free_text=True), {"text": ""}, "needs a text"),
        (gate("question", free_text=True), {}, "needs a text"),
        (gate("budget"), {"choice": "raise"}, None),
        (gate("blocked"), {"choice": "approve"}, "is not one of retry, end"),
    ],
)
def test_answers(asked, answer, why):
    refused = refusal(
        asked,
        named=answer.get("named", "g1"),
        choice=answer.get("choice"),
        text=answer.get("text"),
        args_hash=answer.get("args_hash"),
    )
    assert (why in refused) if why and refused else (refused == why)


@pytest.mark.parametrize(
    ("on_expiry", "choice"),
    [
        ("wait", None),
        ("end", "end"),
        ("default:deny", "deny"),
        ("default:approve", "deny"),
        ("default:continue", "deny"),
    ],
)
def test_what_an_expired_gate_does(on_expiry, choice):
    assert expiry_choice(gate(on_expiry=on_expiry)) == choice


@pytest.mark.parametrize(
    "policy", ["approve", "APPROVE", " approve ", "appro\u200bve", "\uff41pprove", "approve\ufeff"]
)
def test_no_default_approves(policy):
    with pytest.raises(ValidationError, match=r"Value error, safe, wait.*`approve` is no default"):
        GateSettings(timeout_s=1, on_expiry=f"default:{policy}")


@pytest.mark.parametrize(
    ("kind", "choice"),
    [
        ("tool_approval", "deny"),
        *((kind, "end") for kind in ("question", "escalation", "budget", "review", "blocked")),
    ],
)
def test_by_default_no_question_waits_for_ever(kind, choice):
    settings = GateSettings()
    assert settings.deadline(NOW) == NOW + timedelta(days=7)
    assert expiry_choice(gate(kind, on_expiry=settings.on_expiry)) == choice


@pytest.mark.parametrize(
    ("given_", "read"),
    [
        ("g1", ("g1", None)),
        ("g12-7f3a", ("g12", "7f3a")),
        ("g1-7f3", ("g1-7f3", None)),
        ("g1-" + "a" * 65, ("g1-" + "a" * 65, None)),
        ("g1-xyzw", ("g1-xyzw", None)),
        ("", ("", None)),
    ],
)
def test_names_of_gates(given_, read):
    assert read_name(given_) == read


@given(st.text(), st.text("0123456789abcdef", min_size=64, max_size=64))
def test_a_name_follows_what_is_approved(text, hashed):
    asked = gate(args_hash=hashed)
    assert asked.name == f"g1-{hashed[:4]}"
    assert Gate.model_validate_json(asked.model_dump_json()) == asked
    taken = refusal(asked, named=text, choice="approve", text=None, args_hash=None) is None
    assert not taken or hashed.startswith(read_name(text).begins or "x")


@given(
    st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), min_size=1),
    st.text(min_size=1, max_size=4),
)
def test_any_change_of_a_call_changes_its_hash(arguments, name):
    hashed = arguments_hash(name, arguments)
    assert hashed == arguments_hash(name, dict(reversed(arguments.items())))
    assert hashed != arguments_hash(name + "x", arguments)
    assert hashed != arguments_hash(name, {**arguments, "one more": 1})
    first = next(iter(arguments))
    assert hashed != arguments_hash(name, {**arguments, first: [arguments[first]]})


@given(st.lists(st.sampled_from(("open", "answer", "read")), max_size=120))
def test_an_answer_stays_until_it_was_read(moves: list[str]) -> None:
    state, unread = Control(), []
    for move in moves:
        if move == "open":
            gate = gate_lifecycle.open_gate(state, kind="escalation", prompt="?", now=NOW)
            unread.append(gate.id)
        elif move == "answer" and state.open_gates:
            asked = state.open_gates[0]
            said = Answer(gate=asked.id, choice="continue")
            apply_verb(state, said, now=NOW, budget=Budget(limits=BudgetLimits()), wall_time=0.0)
        elif move == "read" and unread and not state.gates[unread[0]].open:
            gate_lifecycle.note_answer_read(state, unread.pop(0))
        assert set(unread) <= set(state.gates)
    assert sum(not gate.open for gate in state.gates.values()) <= NOTES_KEPT + len(unread) + 1
