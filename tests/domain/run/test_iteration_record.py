"""What an iteration record says of its call, and its short form on the way."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.envelope import Spend
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.transcript import TranscriptRef
from perdure.domain.llm.usage import AttemptTotals, Usage
from perdure.domain.run.activity_messages import ModelCallReport
from perdure.domain.run.iteration_record import (
    SAME,
    spent_since,
    thin,
    whole,
    with_account,
    with_reply,
)
from perdure.domain.turns.records import IterationRecord

HEAD = TranscriptRef(hash="sha256:h")
NAMES = st.sampled_from([None, "m", "other", "sha256:h", "sha256:x"])


@given(model=NAMES, transcript=NAMES, tools=NAMES, head=st.sampled_from([None, HEAD]))
def test_the_short_form_loses_nothing(model, transcript, tools, head):
    record = IterationRecord(index=1, model=model, transcript=transcript, tools_ref=tools)
    short = thin(record, model="m", head=head, frame="sha256:x")
    assert whole(short, model="m", head=head, frame="sha256:x") == record


def test_what_the_request_says_anyway_is_left_out():
    record = IterationRecord(index=1, model="m", transcript=HEAD.hash, tools_ref="sha256:f")
    short = thin(record, model="m", head=HEAD, frame="sha256:f")
    assert (short.model, short.transcript, short.tools_ref) == (SAME, SAME, SAME)


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
