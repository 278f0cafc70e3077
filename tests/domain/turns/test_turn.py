"""What follows a reply, a batch of calls, or a limit: the decision tables of the turn loop."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.requests import StopReason
from perdure.domain.turns.repeated_tool_calls import ToolCounters
from perdure.domain.turns.settings import AgentSettings, resolve
from perdure.domain.turns.tool_call_rules import RequestedCall
from perdure.domain.turns.turn import (
    MOST_CUTS,
    Ending,
    Limits,
    Reply,
    TurnState,
    after_calls,
    after_reply,
    ending_step,
)

TEXT = BlobRef(hash="sha256:t", bytes=5)
BLANK = BlobRef(hash="sha256:e", bytes=0)
CALLS = (RequestedCall(id="1", name="fs.read", args_hash="h"),)
AGENT = resolve(AgentSettings())
DELEGATE = resolve(AgentSettings(profile="delegate"))


def told(following) -> str:
    """The decision in a few words."""
    match following.type:
        case "answer":
            return f"{following.source}: {following.outcome}/{following.reason}"
        case "force_text":
            more = ", finish" if following.finish else ""
            return f"force: {following.ending.outcome}/{following.ending.reason}{more}"
        case "go_on":
            return f"go on: {following.why}"
        case other:
            return other


def decide(
    text=None, calls=(), stop="end_turn", *, cut="", turns=AGENT, state=None, **limits
) -> str:
    state = TurnState.model_validate(state or {})
    reply = Reply(text=text, calls=calls, stop_reason=stop, cut_call=cut)
    chosen = Limits.model_validate({"last_iteration": False, **limits})
    return told(after_reply(reply, state, limits=chosen, turns=turns))


AFTER_TOOLS = {"awaiting_results": True}
WITH_DEFERRED = {"deferred": TEXT}
NUDGED = {"nudged": True}
CUT = {"stop": "max_tokens"}
CUT_CALL = {"stop": "max_tokens", "cut": "fs.write"}
OFTEN = {"cuts": MOST_CUTS}
BEGUN = {"answer": TEXT, "deferred": TEXT, "deferred_cut": True, "cuts": 1}


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        pytest.param({**CUT, "text": TEXT}, "go on: cut_text", id="text"),
        pytest.param(
            {"text": TEXT, "stop": "context_end"}, "go on: cut_text", id="text at the window's end"
        ),
        pytest.param(CUT, "go on: cut_text", id="nothing but thinking"),
        pytest.param(CUT_CALL, "go on: cut_call", id="call"),
        pytest.param({**CUT_CALL, "text": TEXT}, "go on: cut_call", id="call behind text"),
        pytest.param({**CUT_CALL, "calls": CALLS}, "run_calls", id="call behind whole calls"),
        pytest.param({**CUT, "state": BEGUN}, "go on: cut_text", id="again"),
        pytest.param({"state": BEGUN}, "go on: cut_text", id="then empty, which proves nothing"),
        pytest.param(
            {"text": TEXT, "state": BEGUN}, "reply: accepted/text_answer", id="then its end"
        ),
        pytest.param(
            {**CUT, "text": TEXT, "state": OFTEN}, "reply: best_effort/output_limit", id="for ever"
        ),
        pytest.param(
            {**CUT_CALL, "state": OFTEN}, "force: best_effort/output_limit", id="calls for ever"
        ),
        pytest.param(
            {"state": {**BEGUN, **OFTEN}},
            "deferred: best_effort/output_limit",
            id="then empty for ever",
        ),
        pytest.param({**CUT, "state": OFTEN}, "fallback: no_output/no_output", id="nothing ever"),
        pytest.param(
            {**CUT, "text": TEXT, "last_iteration": True},
            "reply: best_effort/max_iterations",
            id="in the last iteration",
        ),
        pytest.param(
            {**CUT_CALL, "last_iteration": True},
            "force: best_effort/max_iterations",
            id="a call in the last iteration",
        ),
        pytest.param(
            {**CUT, "text": TEXT, "spent": "tokens"},
            "force: out_of_budget/tokens, finish",
            id="the reserve brings it to its end",
        ),
        pytest.param(
            {**CUT, "text": TEXT, "spent": "tokens", "wrap_up": False},
            "reply: out_of_budget/tokens",
            id="without room for its end",
        ),
        pytest.param(
            {**CUT_CALL, "spent": "cost"}, "force: out_of_budget/cost", id="a call at the end"
        ),
        pytest.param(
            {"text": TEXT, "stop": "pause_turn", "spent": "tokens", "wrap_up": False},
            "reply: out_of_budget/tokens",
            id="a pause at the end of the budget",
        ),
        pytest.param({"text": TEXT, "stop": "tool_use"}, "go on: lost_call", id="announced call"),
        pytest.param(
            {"text": TEXT, "stop": "tool_use", "state": {"cuts": 1}},
            "reply: accepted/text_answer",
            id="announced twice",
        ),
        pytest.param(
            {**CUT, "text": TEXT, "inputs_waiting": True}, "go on: input", id="input comes first"
        ),
    ],
)
def test_a_reply_that_was_cut_is_no_answer(given_, expected):
    assert decide(**given_) == expected


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"text": TEXT}, "reply: accepted/text_answer"),
        ({"text": TEXT, "last_iteration": True}, "reply: accepted/text_answer"),
        ({"text": TEXT, "stop": "max_tokens", "continues": False}, "reply: accepted/text_answer"),
        ({"text": TEXT, "inputs_waiting": True}, "go on: input"),
        (
            {"text": TEXT, "inputs_waiting": True, "last_iteration": True},
            "reply: accepted/text_answer",
        ),
        ({}, "go on: nudge"),
        ({"text": BLANK}, "go on: nudge"),
        ({"state": NUDGED}, "fallback: no_output/no_output"),
        ({"last_iteration": True}, "fallback: no_output/no_output"),
        ({"turns": DELEGATE}, "fallback: no_output/no_output"),
        ({"state": WITH_DEFERRED}, "deferred: accepted/text_answer"),
        ({"state": {**WITH_DEFERRED, **NUDGED}}, "deferred: accepted/text_answer"),
    ],
    ids=[
        "text",
        "text on the last iteration",
        "cut text that nobody goes on with",
        "text with input waiting",
        "input on the last iteration is left unread",
        "empty is nudged",
        "blank is empty",
        "one nudge a run",
        "no nudge on the last iteration",
        "nudging off",
        "deferred text before a nudge",
        "deferred text after a nudge",
    ],
)
def test_the_text_path(given_, expected):
    assert decide(**given_) == expected


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"calls": CALLS}, "run_calls"),
        ({"calls": CALLS, "text": TEXT}, "run_calls"),
        ({"calls": CALLS, "last_iteration": True}, "run_calls"),
        ({"calls": CALLS, "stop": "max_tokens"}, "run_calls"),
        ({"text": TEXT, "stop": "pause_turn"}, "go on: pause_turn"),
        ({"stop": "pause_turn"}, "go on: pause_turn"),
        (
            {"text": TEXT, "stop": "pause_turn", "last_iteration": True},
            "reply: best_effort/max_iterations",
        ),
        ({"stop": "refusal"}, "refused"),
        ({"text": TEXT, "stop": "refusal", "spent_whole": "tokens"}, "refused"),
    ],
    ids=[
        "calls",
        "calls beside text",
        "calls on the last iteration",
        "calls of a cut reply",
        "a pause goes on",
        "a pause without text goes on",
        "a pause on the last iteration",
        "refusal",
        "refusal at the end of the budget",
    ],
)
def test_calls_pauses_and_refusals(given_, expected):
    assert decide(**given_) == expected


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"text": TEXT, "spent": "tokens"}, "reply: accepted/text_answer"),
        ({"text": TEXT, "spent": "tokens", "spent_whole": "tokens"}, "reply: out_of_budget/tokens"),
        ({"calls": CALLS, "spent": "cost"}, "fallback: out_of_budget/cost"),
        ({"calls": CALLS, "spent": "cost", "state": AFTER_TOOLS}, "force: out_of_budget/cost"),
        (
            {"calls": CALLS, "spent": "cost", "state": AFTER_TOOLS, "wrap_up": False},
            "fallback: out_of_budget/cost",
        ),
        (
            {"calls": CALLS, "spent": "output_tokens", "state": AFTER_TOOLS, "wrap_up": False},
            "fallback: out_of_budget/output_tokens",
        ),
        (
            {"calls": CALLS, "text": TEXT, "spent": "cost", "state": WITH_DEFERRED},
            "deferred: out_of_budget/cost",
        ),
        ({"spent": "tokens", "state": AFTER_TOOLS}, "force: out_of_budget/tokens"),
        ({"spent": "tokens"}, "fallback: out_of_budget/tokens"),
    ],
    ids=[
        "the reserve pays for a text",
        "a text that took the last token",
        "calls without results before them",
        "calls are dropped for a closing text",
        "no room for a closing text",
        "output tokens have no reserve",
        "text beside dropped calls",
        "empty after results",
        "empty",
    ],
)
def test_a_spent_budget(given_, expected):
    assert decide(**given_) == expected


@pytest.mark.parametrize(
    ("strikes", "last", "expected"),
    [
        (0, False, None),
        (1, False, None),
        (2, False, "force: tool_misuse/illegal_tool"),
        (3, False, "force: tool_misuse/illegal_tool"),
        (0, True, "force: best_effort/max_iterations"),
        (2, True, "force: tool_misuse/illegal_tool"),
    ],
)
def test_after_a_batch(strikes, last, expected):
    state = TurnState(tallies=ToolCounters(strikes=strikes))
    forced = after_calls(state, limits=Limits(last_iteration=last), turns=AGENT)
    assert (told(forced) if forced else None) == expected


@pytest.mark.parametrize(
    ("state", "wrap_up", "expected"),
    [
        ({}, True, "fallback: stopped/stopped"),
        (AFTER_TOOLS, True, "force: stopped/stopped"),
        (AFTER_TOOLS, False, "fallback: stopped/stopped"),
        ({**AFTER_TOOLS, **WITH_DEFERRED}, False, "deferred: stopped/stopped"),
        (WITH_DEFERRED, True, "deferred: stopped/stopped"),
        ({"cuts": 1}, True, "force: stopped/stopped"),
        ({"cuts": 1}, False, "fallback: stopped/stopped"),
        ({"answer": TEXT}, True, "force: stopped/stopped, finish"),
        ({"answer": TEXT, "cuts": 1}, True, "force: stopped/stopped, finish"),
    ],
)
def test_when_the_loop_must_end(state, wrap_up, expected):
    ending = Ending(outcome="stopped", reason="stopped")
    assert told(ending_step(TurnState.model_validate(state), ending, wrap_up=wrap_up)) == expected


DIMENSION = st.sampled_from([None, "tokens", "output_tokens", "cost", "tool_calls"])


@given(
    text=st.sampled_from([None, BLANK, TEXT]),
    calls=st.sampled_from([(), CALLS]),
    stop=st.sampled_from(get_args(StopReason)),
    cut=st.sampled_from(["", "fs.write"]),
    state=st.builds(
        TurnState,
        deferred=st.sampled_from([None, TEXT]),
        answer=st.sampled_from([None, TEXT]),
        cuts=st.integers(0, MOST_CUTS + 1),
        nudged=st.booleans(),
        awaiting_results=st.booleans(),
    ),
    limits=st.builds(
        Limits,
        last_iteration=st.booleans(),
        spent=DIMENSION,
        spent_whole=DIMENSION,
        wrap_up=st.booleans(),
        inputs_waiting=st.booleans(),
        continues=st.booleans(),
    ),
    turns=st.sampled_from([AGENT, DELEGATE]),
)
def test_for_any_reply_the_loop_goes_on_only_where_it_may(
    text, calls, stop, cut, state, limits, turns
):
    reply = Reply(text=text, calls=calls, stop_reason=stop, cut_call=cut)
    following = after_reply(reply, state, limits=limits, turns=turns)
    match following.type:
        case "answer":
            assert following.reason in REASONS[following.outcome]
            held = {"reply": text, "deferred": state.deferred, "fallback": TEXT}[following.source]
            assert held is not None and held.bytes > 0
            if following.outcome == "accepted" and limits.continues:
                assert not reply.unfinished, "a part of an answer is none"
        case "go_on":
            assert not limits.last_iteration
            assert state.cuts < MOST_CUTS or following.why in {"pause_turn", "nudge", "input"}
        case "force_text":
            limited = following.ending.outcome == "best_effort"
            assert limited or limits.wrap_up
            assert state.awaiting_results or following.anyway
        case "run_calls":
            assert calls and limits.spent is None
        case "refused":
            assert stop == "refusal"
