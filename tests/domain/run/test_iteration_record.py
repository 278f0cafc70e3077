"""What an iteration record says of its call, and its short form on the way."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.accounting import Spend
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.llm.usage import AttemptTotals, Usage
from perdure.domain.run.activity_messages import ModelCallReport
from perdure.domain.run.iteration_record import (
    SAME,
    Carrier,
    spent_since,
    thin,
    whole,
    with_account,
    with_reply,
)
from perdure.domain.turns.entries import ResultsEntry, ToolResultEntry
from perdure.domain.turns.records import IterationRecord, ToolCallRecord

HEAD = TranscriptRef(hash="sha256:h")
NAMES = st.sampled_from([None, "m", "other", "sha256:h", "sha256:x"])


CALLS = st.lists(
    st.builds(
        ToolCallRecord,
        id=st.sampled_from(["c1", "c2", "c3"]),
        name=st.sampled_from(["fs.read", "fs.list"]),
        outcome=st.just("ok"),
    ),
    max_size=3,
)


def results(calls: list[ToolCallRecord]) -> ResultsEntry:
    given = tuple(ToolResultEntry(call_id=call.id, name=call.name) for call in calls)
    return ResultsEntry(type="results", results=given)


@given(
    model=NAMES,
    transcript=NAMES,
    tools=NAMES,
    head=st.sampled_from([None, HEAD]),
    calls=CALLS,
    given=CALLS,
    asked=st.booleans(),
)
def test_the_short_form_loses_nothing(model, transcript, tools, head, calls, given, asked):
    record = IterationRecord(
        index=1,
        model=model,
        transcript=transcript,
        tools_ref=tools,
        tools_offered=2 if tools else 0,
        calls=tuple(calls),
        has_tool_calls=asked,
    )
    for append in ([results(given)], [results(calls)], []):
        carrier = Carrier.of(model="m", head=head, frame="sha256:x", append=append)
        assert whole(thin(record, carrier), carrier) == record


def test_what_the_request_says_anyway_is_left_out():
    call = ToolCallRecord(id="c1", name="fs.read", outcome="ok", ms=3)
    record = IterationRecord(
        index=1,
        model="m",
        transcript=HEAD.hash,
        tools_offered=2,
        tools_ref="sha256:f",
        calls=(call,),
        has_tool_calls=True,
    )
    carrier = Carrier.of(model="m", head=HEAD, frame="sha256:f", append=[results([call])])
    short = thin(record, carrier)
    assert (short.model, short.transcript, short.tools_ref) == (SAME, SAME, None)
    assert short.calls == (ToolCallRecord(id=SAME, name=SAME, outcome="ok", ms=3),)
    assert not short.has_tool_calls


def test_spend_between_two_looks():
    before = Spend(model_calls=1, usage=Usage(input_tokens=5), cost_usd=Decimal(1), active_time=1)
    now = Spend(
        model_calls=3,
        usage=Usage(input_tokens=9, output_tokens=2),
        unconfirmed=Usage(input_tokens=7),
        cost_usd=Decimal("1.5"),
        active_time=2.25,
    )
    assert spent_since(before, now) == AttemptTotals(
        attempts=2,
        usage=Usage(input_tokens=11, output_tokens=2),
        cost_usd=Decimal("0.5"),
        seconds=1.25,
    )


@pytest.mark.parametrize("before", [False, True], ids=["new", "from before"])
def test_an_unknown_cost_stays_unknown(before):
    account = spent_since(Spend(unpriced=before), Spend(unpriced=True))
    assert account.cost_usd is None
    assert with_account(IterationRecord(index=1), account).cost_usd is None


def test_the_reply_on_the_record():
    called = ModelCallReport(
        status="replied",
        head=HEAD,
        model="m",
        request_id="r",
        stop_reason="end_turn",
        text=BlobRef(hash="sha256:t", bytes=1),
        tools_ref="sha256:n",
    )
    record = with_reply(
        IterationRecord(index=1, adaptation="x"), called, tools_offered=4, frame="sha256:f"
    )
    assert record == IterationRecord(
        index=1,
        adaptation="x",
        model="m",
        request_id="r",
        stop_reason="end_turn",
        tools_offered=4,
        tools_ref="sha256:n",
        transcript="sha256:h",
        output_ref="sha256:t",
    )


@pytest.mark.parametrize(
    ("offered", "named", "ref"),
    [(2, None, "sha256:f"), (2, "sha256:n", "sha256:n"), (0, None, None)],
    ids=["all of the run's", "some of them", "none"],
)
def test_what_was_on_offer_is_named_by_reference(offered, named, ref):
    called = ModelCallReport(status="replied", tools_ref=named)
    record = with_reply(IterationRecord(index=1), called, tools_offered=offered, frame="sha256:f")
    assert record.tools_ref == ref
