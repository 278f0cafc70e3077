"""What people may ask of a run, when, and what it changes."""

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.accounting import Budget, BudgetLimits, Spend
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.run import control as rules
from perdure.domain.run.amend_spec import raise_refusal, unheard_refusal
from perdure.domain.run.control import NOTES_KEPT, REQUESTS_KEPT, Control
from perdure.domain.run.gate_lifecycle import close_expired, note_answer_read, open_gate
from perdure.domain.run.gates import END, Gate, GateKind
from perdure.domain.run.messages import (
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Escalate,
    Pause,
    Resume,
    Retry,
    Stop,
)

NOW = datetime(2026, 5, 4, tzinfo=UTC)
BUDGET = Budget(limits=BudgetLimits(tokens=1_000), spent=Spend(tokens=400))
LONG = "x" * 8_193


def refuse(state: Control, message, *, inputs: bool = True) -> str | None:
    return rules.verb_refusal(
        state, message, budget=BUDGET, wall_time=0, inputs_allowed=inputs, rubric_allowed=True
    )


def take(state: Control, message, request_id: str | None = None):
    return rules.apply_verb(
        state, message, now=NOW, budget=BUDGET, wall_time=0, request_id=request_id
    )


def asked(**more: object) -> Control:
    state = Control.model_validate(more)
    open_gate(state, kind="question", prompt="Tea?", now=NOW, choices=("yes", "no"))
    return state


RUNNING, PAUSED = Control(), Control(paused=True)
STOPPING, ENDED = Control(stop="graceful"), Control(ended=True)


def answered(kind: GateKind) -> Control:
    """A run whose answer was given, and not read by its loop yet."""
    state = Control()
    gate = open_gate(state, kind=kind, prompt="?", now=NOW)
    take(state, Answer(gate=gate.id, choice=gate.choices[0] if gate.choices else None, text="x"))
    return state


@pytest.mark.parametrize(
    ("state", "message", "why"),
    [
        (RUNNING, Pause(), None),
        (asked(), Pause(), None),
        (PAUSED, Pause(), "the run is paused already"),
        (STOPPING, Pause(), "the run is stopping"),
        (RUNNING, Resume(), "the run is running, not paused"),
        (asked(), Resume(), "the run is waiting, not paused"),
        (PAUSED, Resume(), None),
        (RUNNING, Stop(), None),
        (PAUSED, Stop(), None),
        (asked(), Stop(), None),
        (STOPPING, Stop(), "the run is stopping already"),
        (STOPPING, Stop(mode="now"), None),
        (Control(stop="now"), Stop(), "the run is stopping already"),
        (Control(stop="now"), Stop(mode="now"), "the run is stopping already"),
        (RUNNING, Escalate(note="look"), None),
        (PAUSED, Escalate(), "the run is paused"),
        (asked(), Escalate(), "the run is waiting"),
        (STOPPING, Escalate(), "the run is stopping"),
        (answered("escalation"), Escalate(), "an escalation was answered just now; ask again"),
        (answered("question"), Escalate(), None),
        (Control(escalation="look"), Escalate(), "the run asks at its next checkpoint already"),
        (RUNNING, AddInput(text="hi"), None),
        (RUNNING, AddInput(), "the input is empty"),
        (RUNNING, AddInput(ref=BlobRef(hash="sha256:x")), None),
        (RUNNING, AddInput(text=LONG), "the text is above 8 KiB"),
        (RUNNING, AddInput(text="ü" * 4_097), "the text is above 8 KiB"),
        (RUNNING, AddInput(text="x" * 8_192), None),
        (RUNNING, Amend(), "amend needs a budget, a rubric or guidance"),
        (RUNNING, Amend(guidance="brief"), None),
        (RUNNING, Amend(guidance=LONG), "the text is above 8 KiB"),
        (RUNNING, Amend(budget={"tokens": 400}), None),
        (RUNNING, Amend(budget={"tokens": 399}), "budget.tokens: 399 is below the 400 already"),
        (RUNNING, Amend(budget={"tokns": 5}), "tokns"),
        (RUNNING, Answer(gate="g1", choice="yes"), "there is no gate 'g1'"),
        (asked(), Answer(gate="g1", choice="yes"), None),
        (asked(), Answer(gate="g1", choice="maybe"), "'maybe' is not one of yes, no"),
        (RUNNING, Retry(), "the run is running"),
    ],
)
def test_when_a_verb_is_allowed(state, message, why):
    refused = refuse(state, message)
    assert (why in refused) if why and refused else (refused == why)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            Amend(budget={"tokns": 5}),
            "budget.tokns: found the field tokns; allowed: one of active_time, cost_usd, count_",
        ),
        (Amend(budget={"tokns": 5}), "Did you mean tokens?"),
        (
            Amend(budget={"cost_usd": "much"}),
            'budget.cost_usd: found "much"; allowed: an amount such as 2.00.',
        ),
        (
            Amend(budget={"tokens": -1, "wrap_up": 2}),
            "budget.tokens: found -1; allowed: at least 0. budget.wrap_up: found 2; allowed: less",
        ),
        (
            Amend(budget={"on_exhausted": "aks"}),
            'budget.on_exhausted: found "aks"; allowed: one of abort, ask. Did you mean ask?',
        ),
        (
            Amend(budget={name: [] for name in ("tokens", "depth", "workers", "iterations")}),
            "And 1 more.",
        ),
        (
            Amend(rubric=[{"name": "short", "evaluator": {"check": "lenght"}}]),
            'rubric[0].evaluator: found {"check": "lenght"}; allowed: judge: {}, human: {}, or',
        ),
        (Amend(rubric=[]), "rubric: found []; allowed: at least one dimension."),
    ],
)
def test_a_wrong_amendment_is_told_with_place_value_and_cure(message: Amend, why: str) -> None:
    refused = refuse(RUNNING, message)
    assert refused is not None
    assert why in refused
    assert "validation error" not in refused


@pytest.mark.parametrize(
    "message",
    [
        Pause(),
        Resume(),
        Stop(),
        Escalate(),
        AddInput(text="x"),
        Amend(guidance="x"),
        Answer(gate="g1"),
        Retry(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_an_ended_run_refuses_every_verb(message):
    assert refuse(ENDED, message) == "the run has ended; after a failure `retry` goes on with it"


@pytest.mark.parametrize("kind", get_args(GateKind))
@pytest.mark.parametrize(
    "verb", [verb for verb in get_args(AnyMessage) if verb is not Answer], ids=lambda v: v.__name__
)
def test_no_verb_but_answer_settles_a_gate(verb, kind):
    state = Control()
    gate = open_gate(state, kind=kind, prompt="?", now=NOW, free_text=True, args_hash="ab")
    filled = {"note": "retry", "guidance": "approve", "text": "approve", "budget": {"tokens": 900}}
    message = verb.model_validate({k: v for k, v in filled.items() if k in verb.model_fields})
    if refuse(state, message) is None:
        take(state, message)
    assert state.open_gates == (gate,)


def test_a_retry_names_the_answer_that_a_person_would_give():
    state = Control()
    open_gate(state, kind="blocked", prompt="no access", now=NOW)
    refused = refuse(state, Retry(note="now there is"))
    assert refused is not None and "`perdure answer g1 retry`" in refused


def test_a_kind_without_input_says_so():
    assert refuse(RUNNING, AddInput(text="x"), inputs=False) is not None


def test_pausing_and_resuming():
    state = Control()
    assert take(state, Pause(by="me")).event == "paused" and state.lifecycle == "paused"
    assert take(state, Resume(by="me")).event == "resumed" and state.lifecycle == "running"


@pytest.mark.parametrize("mode", ["graceful", "now"])
def test_stopping_remembers_how_and_by_whom(mode):
    state = Control()
    take(state, Stop(mode=mode, by="me"))
    assert (state.stop, state.stopped_by) == (mode, "me")


@pytest.mark.parametrize(
    ("note", "prompt"), [("look", "look"), ("", "a person asked to look at this run")]
)
def test_escalating(note, prompt):
    state = Control()
    take(state, Escalate(note=note))
    assert state.escalation == prompt


def test_input_keeps_its_order():
    state = Control()
    for text in ("one", "two"):
        assert take(state, AddInput(text=text, by="me")).event == "input_added"
    assert [given.text for given in state.inputs] == ["one", "two"]


def test_amending_leaves_an_audit_trail():
    state = Control()
    taken = take(state, Amend(budget={"tokens": 5_000}, guidance="brief", by="me"))
    assert taken.event == "amended"
    assert taken.budget is not None and taken.budget.limits.tokens == 5_000
    assert state.guidance == ["brief"]
    (amendment,) = state.amendments
    assert (amendment.by, amendment.at) == ("me", NOW)
    assert amendment.changes == {"budget": {"tokens": 5_000}, "guidance": "brief"}


def test_the_first_valid_answer_wins_and_later_ones_are_told_so():
    state = asked()
    take(state, Answer(gate="g1", choice="yes", by="ada"))
    assert state.gates["g1"].answer is not None
    refused = refuse(state, Answer(gate="g1", choice="no", by="bob"))
    assert refused == "gate g1 was already answered with 'yes' by ada"


RAISES = {
    "another choice": (1_000, None, "end", None),
    "nothing was raised": (1_000, None, "raise", "the budget is spent (tokens: 1000 of 900)"),
    "to what is spent": (1_000, 1_000, "raise", "--budget tokens=…"),
    "within what is kept for the end": (1_000, 1_100, "raise", "(tokens: 1000 of 990)"),
    "enough": (1_000, 2_000, "raise", None),
    "a call did not fit, nothing was raised": (10, None, "raise", "no limit was raised since"),
    "a call did not fit, raised": (10, 2_000, "raise", None),
}


@pytest.mark.parametrize(("spent", "limit", "choice", "why"), RAISES.values(), ids=RAISES)
def test_a_raise_needs_a_limit_that_lets_the_run_go_on(spent, limit, choice, why):
    budget, state = Budget(limits=BudgetLimits(tokens=1_000), spent=Spend(tokens=spent)), Control()
    early = Amend(budget={"cost_usd": 3})
    rules.apply_verb(state, early, now=NOW - timedelta(seconds=1), budget=budget, wall_time=0)
    open_gate(state, kind="budget", prompt="More?", now=NOW)
    if limit is not None:
        given_ = Amend(budget={"tokens": limit})
        taken = rules.apply_verb(state, given_, now=NOW, budget=budget, wall_time=0)
        assert taken.budget is not None
        budget = taken.budget
    message = Answer(gate="g1", choice=choice)
    refused = raise_refusal(state, message, budget=budget, wall_time=0)
    assert refused is None if why is None else refused is not None and why in refused


@pytest.mark.parametrize("within", [True, False])
def test_the_last_permitted_iteration_may_finish_with_a_raised_budget(within):
    limits = BudgetLimits(tokens=1_000, iterations=1)
    budget, state = Budget(limits=limits, spent=Spend(tokens=1_000, iterations=1)), Control()
    gate = open_gate(state, kind="budget", prompt="More?", now=NOW, within_iteration=within)
    assert Gate.model_validate_json(gate.model_dump_json()) == gate
    message = Answer(gate="g1", choice="raise")
    assert "(tokens: 1000 of 900)" in str(raise_refusal(state, message, budget=budget, wall_time=0))
    more = Amend(budget={"tokens": 50_000})
    raised = rules.apply_verb(state, more, now=NOW, budget=budget, wall_time=0).budget
    assert raised is not None
    refused = raise_refusal(state, message, budget=raised, wall_time=0)
    assert refused is None if within else "(iterations: 1 of 1)" in str(refused)


def test_only_a_spent_budget_asks_for_a_limit():
    state = Control()
    open_gate(state, kind="question", prompt="Up?", now=NOW, choices=("raise", "fold"))
    message = Answer(gate="g1", choice="raise")
    assert raise_refusal(state, message, budget=BUDGET, wall_time=0) is None
    elsewhere = Answer(gate="g7", choice="raise")
    assert raise_refusal(state, elsewhere, budget=BUDGET, wall_time=0) is None


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=20))
def test_a_repeated_request_has_one_effect(names):
    state = Control()
    for name in names:
        message = AddInput(text=name, request_id=name)
        if not rules.is_repeat(state, message):
            take(state, message)
    assert sorted(given_.text for given_ in state.inputs) == sorted(set(names))


REPEATS = {
    "the same": (AddInput(text="x", by="ann"), AddInput(text="x", by="bob"), False),
    "another text": (AddInput(text="x"), AddInput(text="y"), True),
    "another verb without fields": (Pause(), Resume(), True),
    "another choice": (Answer(gate="g1", choice="deny"), Answer(gate="g1", choice="approve"), True),
}


@pytest.mark.parametrize(("first", "second", "other"), REPEATS.values(), ids=REPEATS.keys())
def test_a_request_id_belongs_to_one_message(first, second, other):
    state = Control()
    rules.remember(state, first.model_copy(update={"request_id": "r1"}), None)
    carried = Control.model_validate_json(state.model_dump_json())
    why = rules.reused_id_refusal(carried, second.model_copy(update={"request_id": "r1"}))
    assert (why is not None) == other
    assert why is None or "'r1' was used for another message" in why
    assert rules.reused_id_refusal(carried, second) is None, "without an id it repeats nothing"


def test_a_run_of_before_knows_its_request_ids_alone():
    state = Control(requests=["r1"])
    assert rules.is_repeat(state, Pause(), "r1")
    assert rules.reused_id_refusal(state, Pause(request_id="r1")) is None


def test_the_memory_of_requests_is_bounded():
    state = Control()
    for number in range(REQUESTS_KEPT + 5):
        take(state, AddInput(text="x", request_id=f"ours {number}"), request_id=str(number))
        take(state, AddInput(text="x"), request_id=str(number))
    assert len(state.requests) == REQUESTS_KEPT
    assert len(state.request_contents) == REQUESTS_KEPT / 2
    assert not rules.is_repeat(state, AddInput(), "0")
    assert rules.is_repeat(state, AddInput(), str(REQUESTS_KEPT + 4))


def test_gate_ids_are_run_wide_and_survive_a_roll():
    state = asked()
    carried = Control.model_validate_json(state.model_dump_json())
    gate = open_gate(carried, kind="budget", prompt="More?", now=NOW)
    assert (gate.id, gate.choices) == ("g2", ("raise", "end"))
    assert [open_.id for open_ in carried.open_gates] == ["g1", "g2"]


def test_answered_gates_are_forgotten_before_open_ones():
    state = asked()
    for number in range(2, NOTES_KEPT + 10):
        open_gate(state, kind="review", prompt="ok?", now=NOW, free_text=True)
        take(state, Answer(gate=f"g{number}", text="fine"))
        note_answer_read(state, f"g{number}")
    assert "g1" in state.gates and state.gates["g1"].open
    assert len(state.gates) <= NOTES_KEPT + 2


@pytest.mark.parametrize(
    ("on_expiry", "after_s", "choice"),
    [("wait", 100, None), (END, 59, None), (END, 60, END), ("default:no", 61, "no")],
)
def test_a_gate_that_nobody_answers(on_expiry, after_s, choice):
    state = Control()
    open_gate(
        state,
        kind="question",
        prompt="?",
        now=NOW,
        choices=("yes", "no"),
        deadline=NOW + timedelta(seconds=60),
        on_expiry=on_expiry,
    )
    closed = close_expired(state, now=NOW + timedelta(seconds=after_s))
    assert [gate.answer.choice for gate in closed if gate.answer] == ([choice] if choice else [])
    assert bool(state.open_gates) is (choice is None)
    assert all(gate.answer and gate.answer.expired for gate in closed)


def test_refused_signals_are_noted_and_bounded():
    state = Control()
    for number in range(NOTES_KEPT + 5):
        rules.note_refused(state, "pause", str(number))
    assert len(state.refused_signals) == NOTES_KEPT
    assert state.refused_signals[-1] == f"pause: {NOTES_KEPT + 4}"


@pytest.mark.parametrize(
    ("state", "deadline_passed", "message", "why"),
    [
        (asked(), False, Answer(gate="g1", choice="yes"), None),
        (asked(stop="graceful"), False, Answer(gate="g1", choice="yes"), "the run is stopping"),
        (asked(), True, Answer(gate="g1", choice="yes"), "the time limit has passed"),
        (asked(stop="graceful"), True, AddInput(text="hi"), None),
    ],
)
def test_no_answer_is_taken_that_nobody_reads(
    state: Control, deadline_passed: bool, message: AnyMessage, why: str | None
) -> None:
    refused = unheard_refusal(state, message, deadline_passed=deadline_passed)
    assert (refused or "").startswith(why or "")
    assert (refused is None) == (why is None)
