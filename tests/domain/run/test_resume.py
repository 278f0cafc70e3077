"""Slim states: what is taken up again decides as the run itself would have."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.agent.state import AgentState, slim_agent
from perdure.domain.budget.accounting import Budget, BudgetLimits, Reservation, Spend, reserve
from perdure.domain.budget.journal import AttemptRow, AttemptState
from perdure.domain.llm.transcript import (
    GO_ON_PROMPT,
    Message,
    ToolResultBlock,
    ToolUseBlock,
    TranscriptRef,
    assistant_message,
    resumable,
    user_message,
)
from perdure.domain.llm.usage import Usage
from perdure.domain.run.child_questions import Forwarded, Question
from perdure.domain.run.child_runs import ChildStatus, hold_started
from perdure.domain.run.control import Control
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer
from perdure.domain.run.result import Origin
from perdure.domain.run.resume import (
    as_stored,
    booked_of,
    booked_report,
    fork_of,
    inherited,
    retry_of,
    spent_with,
    taken_up,
    with_records,
)
from perdure.domain.run.state import RECORDS_KEPT, SpendSlice
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.repeated_tool_calls import ToolCounters, recounted
from perdure.domain.turns.turn import Batch, TurnState

START = datetime(2026, 1, 2, tzinfo=UTC)
HEAD = TranscriptRef(hash="sha256:aa", messages=3)
LIMITS = BudgetLimits(tokens=500)


def _state(**more: object) -> AgentState:
    return AgentState.model_validate({"started_at": START, "budget": Budget(limits=LIMITS), **more})


def _row(state: AttemptState, tokens: int, cost: str | None, *, phase: str = "p") -> AttemptRow:
    return AttemptRow(
        key="e/s1",
        attempt=1,
        root="r",
        run="r",
        phase=phase,
        role="executor",
        iteration=1,
        model="m",
        state=state,
        usage=Usage(input_tokens=tokens, output_tokens=1),
        cost_usd=None if cost is None else Decimal(cost),
        started_at=START,
        seconds=1.0,
    )


def test_a_slim_state_keeps_what_decides_and_is_read_back_the_same() -> None:
    turn = TurnState(
        head=HEAD,
        iteration=4,
        entries=[SayEntry(type="say", text="hi")],
        tallies=ToolCounters(used={"a": 2}, strikes=1),
        awaiting_results=True,
        tools_succeeded=True,
        unwritten=[IterationRecord(index=4)],
    )
    gate = Gate(id="g1", kind="question", prompt="?", choices=(), opened_at=START)
    control = Control(paused=True, ended=True, requests=["r1"], gates={"g1": gate}, gates_opened=1)
    core = _state(
        turn=turn,
        control=control,
        frame="sha256:f",
        root="/x",
        outcome="failed",
        records=[IterationRecord(index=4)],
        budget=Budget(limits=LIMITS, spent=Spend(tokens=9), reserved={"s1": Reservation(tokens=5)}),
    )
    slim = slim_agent(core)
    assert AgentState.model_validate(as_stored(slim)) == slim
    assert (slim.frame, slim.root, slim.outcome, slim.records) == (None, "", None, [])
    assert (slim.turn.head, slim.turn.iteration, slim.turn.entries) == (HEAD, 4, turn.entries)
    assert slim.turn.tallies == ToolCounters()
    assert (slim.turn.unwritten, slim.turn.awaiting_results) == ([], True)
    assert (slim.control.requests, slim.control.paused, slim.control.ended) == (
        ["r1"],
        False,
        False,
    )
    assert (slim.control.gates, slim.control.gates_opened) == ({}, 1)
    assert (slim.budget.spent.tokens, slim.budget.reserved) == (9, {})


def test_a_batch_that_was_cut_short_is_left_to_the_transcript() -> None:
    turn = TurnState(head=HEAD, batch=Batch(), entries=[SayEntry(type="say", text="old")])
    assert slim_agent(_state(turn=turn)).turn.entries == []


def test_a_fork_has_an_account_of_its_own_and_hears_what_changed() -> None:
    state = _state(
        budget=Budget(limits=LIMITS, spent=Spend(tokens=9), complete_output=True),
        control=Control(requests=["r1"], guidance=["be brief"]),
    )
    origin = Origin(run="a", iteration=2)
    later = START + timedelta(days=1)
    fork = fork_of(state, now=later, limits=BudgetLimits(tokens=7), origin=origin, say="new")
    assert (fork.budget.spent, fork.budget.limits.tokens) == (Spend(), 7)
    assert (fork.control.guidance, fork.control.requests) == (["be brief", "new"], [])
    assert (fork.started_at, fork.forked_from, fork.budget.complete_output) == (later, origin, True)


def test_the_runs_below_and_their_questions_stay_with_the_run_that_started_them() -> None:
    below = ChildStatus(id="a.1-team", name="team", kind="roles")
    asked = Question(
        run=below.id, gate="g1", kind="question", prompt="?", choices=(), opened_at=START
    )
    answer = Forwarded(run=below.id, answer=Answer(gate="g1", choice="yes", by="ada"))
    state = _state(
        children=[below],
        children_started=1,
        by_child={"team": SpendSlice(calls=3)},
        below={below.id: (asked,)},
        forward=[answer],
    )
    assert state.asked_below
    kept = slim_agent(state)
    assert (kept.asked_below, kept.forward) == ((), [])
    assert (kept.children, kept.by_child) == ([below], state.by_child), "a retry shows them"
    origin = Origin(run="a", iteration=2)
    fork = fork_of(kept, now=START, limits=LIMITS, origin=origin)
    assert (fork.children, fork.children_started, fork.by_child) == ([], 0, {})


def test_a_retry_carries_the_spend_and_leaves_the_time_between_out() -> None:
    ended = START + timedelta(minutes=5)
    retried = retry_of(
        _state(budget=Budget(limits=LIMITS, spent=Spend(tool_calls=3, active_time=2.0))),
        booked=booked_of([_row("answered", 10, "0.5"), _row("lost", 5, "0.25", phase="q")]),
        now=ended + timedelta(days=3),
        ended_at=ended,
        note="try harder",
        request_id="r9",
    )
    spent = retried.budget.spent
    assert (spent.tokens, spent.cost_usd, spent.model_calls) == (17, Decimal("0.75"), 2)
    assert spent.unconfirmed == Usage(input_tokens=5, output_tokens=1)
    assert (spent.tool_calls, spent.active_time) == (3, 2.0)
    assert {name: item.calls for name, item in retried.by_phase.items()} == {"p": 1, "q": 1}
    assert retried.started_at == START + timedelta(days=3)
    assert (retried.control.guidance, retried.control.requests) == (["try harder"], ["r9"])


def test_a_retry_holds_what_loops_may_spend_until_the_agent_looks_again() -> None:
    step, loop = Reservation(tokens=5), Reservation(tokens=400, cost_usd=Decimal(1))
    held = hold_started(reserve(Budget(limits=LIMITS), "call-1", step), {"notes-1": loop})
    state = slim_agent(_state(budget=held))
    retried = retry_of(state, booked=booked_of([]), now=START, ended_at=START)
    assert list(retried.budget.reserved.values()) == [loop]
    assert hold_started(retried.budget, {}).reserved == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["answered", "failed", "lost", "duplicate"]),
            st.integers(0, 1000),
            st.one_of(st.none(), st.decimals(0, 9, places=4).map(str)),
        )
    )
)
def test_what_is_carried_is_the_sum_of_the_journal(
    rows: list[tuple[AttemptState, int, str | None]],
) -> None:
    made = [_row(state, tokens, cost) for state, tokens, cost in rows]
    spent = spent_with(Budget(limits=LIMITS, spent=Spend(tokens=99)), booked_of(made).account)
    assert spent.usage + spent.unconfirmed == sum((row.usage for row in made), Usage())
    assert spent.tokens == sum(row.usage.counted_tokens() for row in made)
    costs = [row.cost_usd for row in made]
    known = [cost for cost in costs if cost is not None]
    assert spent.cost_or_none == (sum(known, Decimal(0)) if None not in costs else None)
    assert spent.cost_usd == sum(known, Decimal(0)), "one unknown price hides no known one"
    assert booked_report(booked_of(made)).least_cost_usd == spent.cost_usd


def test_records_bring_the_files_of_the_newest_iteration_that_changed_them() -> None:
    records = [IterationRecord(index=n, tree_ref=f"t{n}" if n < 3 else None) for n in range(1, 41)]
    state = with_records(_state(base_tree="base"), records)
    assert (state.tree, state.record_count) == ("t2", 40)
    assert [record.index for record in state.records] == list(range(41 - RECORDS_KEPT, 41))
    assert with_records(_state(base_tree="base"), records[5:]).tree == "base"


def test_records_name_the_run_that_made_them() -> None:
    own, older = IterationRecord(index=2), IterationRecord(index=1, origin="first")
    assert [record.origin for record in inherited([older, own], "second")] == ["first", "second"]


def _used(number: int, name: str = "fs.read", outcome: str = "ok") -> list[Message]:
    use = ToolUseBlock(type="tool_use", id=f"c{number}", name=name, arguments={"path": "a"})
    result = ToolResultBlock.model_validate(
        {"type": "tool_result", "call_id": use.id, "name": name, "outcome": outcome, "text": "x"}
    )
    return [Message(role="assistant", blocks=(use,)), Message(role="user", blocks=(result,))]


def test_calls_are_counted_again_from_what_was_said() -> None:
    said = [user_message("go"), *_used(1), *_used(2), *_used(3, "fs.list", "error")]
    tallies = recounted(said)
    assert tallies.used == {"fs.read": 2, "fs.list": 1}
    assert sorted(tallies.arguments.values()) == [1, 2]
    assert tallies.succeeded == ["fs.read"]
    turn = taken_up(TurnState(head=HEAD), None, tallies)
    assert (turn.head, turn.tallies.used, turn.tools_succeeded) == (HEAD, tallies.used, True)
    fresh = taken_up(TurnState(), HEAD, None)
    assert (fresh.head, fresh.tallies) == (HEAD, ToolCounters())


def test_it_is_the_models_turn_in_a_conversation_that_goes_on() -> None:
    said = (user_message("go"), assistant_message("done"))
    assert [message.text for message in resumable(said)] == ["go", "done", GO_ON_PROMPT]
    assert resumable(said[:1]) == said[:1]
    cut = (user_message("go"), _used(1)[0])
    assert [message.role for message in resumable(cut)] == ["user", "assistant", "user"]


def test_a_report_of_the_journal_counts_tokens_like_its_budget() -> None:
    read = _row("answered", 10, "0.1").model_copy(
        update={"usage": Usage(input_tokens=10, output_tokens=1, cache_read_tokens=500)}
    )
    for counts, tokens in ((False, 11), (True, 511)):
        report = booked_report(booked_of([read]), count_cache_reads=counts)
        assert report.tokens == report.by_phase["p"]["tokens"] == tokens
