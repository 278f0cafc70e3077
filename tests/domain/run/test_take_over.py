"""What a run that was reset counts of its older lives."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.accounting import Budget, BudgetLimits, Spend
from perdure.domain.llm.usage import AttemptTotals, Usage
from perdure.domain.run.child_runs import WAVE, child_name, child_number
from perdure.domain.run.result import SpendReport
from perdure.domain.run.resume import Booked
from perdure.domain.run.state import LoopState, SpendSlice
from perdure.domain.run.status import RunStatus, StoredRun
from perdure.domain.run.take_over import (
    Orphan,
    TakeOverReport,
    last_taken_number,
    reopened,
    take_over,
)
from perdure.gateway.stored_status import first_status

AT = datetime(2026, 1, 1, tzinfo=UTC)


def state(**spent: object) -> LoopState:
    budget = Budget(limits=BudgetLimits(), spent=Spend.model_validate(spent))
    return LoopState(started_at=AT, budget=budget, children_started=2)


def report(tokens: int, *orphans: Orphan, **more: object) -> TakeOverReport:
    account = AttemptTotals(attempts=3, usage=Usage(input_tokens=tokens), cost_usd=Decimal(1))
    booked = Booked(account=account, by_model={"m": SpendSlice(calls=3)})
    return TakeOverReport.model_validate({"booked": booked, "orphans": orphans, **more})


def orphan(number: int, **spend: object) -> Orphan:
    return Orphan(
        id=f"r.w{number}-a",
        name="a",
        kind="delegation",
        open=True,
        spend=SpendReport.model_validate(spend),
    )


def test_spend_is_that_of_all_lives() -> None:
    core = state(tokens=10, model_calls=1, iterations=4, tool_calls=2)
    told = take_over(core, report(500, tool_calls=3))
    spent = core.budget.spent
    assert (spent.tokens, spent.model_calls, spent.cost_usd) == (500, 3, Decimal(1))
    assert (spent.iterations, spent.tool_calls) == (4, 5), "what is done again was done before too"
    assert core.dropped_calls == 3, "the next life that goes on from here counts them no more"
    assert core.by_model == {"m": SpendSlice(calls=3)}
    assert told == {"tokens": 490, "cost_usd": "1", "ended": None}


def test_children_of_older_lives_are_ended_and_counted() -> None:
    core = state(workers=1)
    lost = orphan(3, tokens=40, workers=2, sub_managers=1, tool_calls=6)
    told = take_over(core, report(500, lost, children=19))
    spent = core.budget.spent
    assert (spent.workers, spent.sub_managers, spent.tool_calls) == (4, 2, 6)
    assert [(child.id, child.open, child.reason) for child in core.children] == [
        ("r.w3-a", False, "parent_reset")
    ]
    assert core.by_child[lost.id].usage == Usage()
    assert (core.children_started, told["ended"]) == (19, ["r.w3-a"])


@given(known=st.integers(0, 50), newest=st.integers(0, 50))
def test_no_child_of_a_new_life_has_the_number_of_an_older_one(known: int, newest: int) -> None:
    first = last_taken_number(known, newest) + 1
    assert first > newest + WAVE
    assert first > known


@pytest.mark.parametrize(
    ("child", "name"), [("r.w3-mid", "mid"), ("r.w3", "w3"), ("r.w1-a.w12-b-c", "b-c")]
)
def test_an_id_tells_name_and_number(child: str, name: str) -> None:
    parent = child.rpartition(".")[0]
    assert child_name(child, parent) == name
    assert child_number(child, parent) > 0


def test_a_row_that_is_opened_again_tells_nothing_of_its_end() -> None:
    row = StoredRun(
        id="r",
        kind="agent",
        goal="g",
        label=None,
        lifecycle="completed",
        outcome="accepted",
        started_at=AT,
        ended_at=AT,
        result="{}",
        state="sha256:x",
        spec="sha256:y",
    )
    opened = reopened(row)
    assert (opened.lifecycle, opened.outcome, opened.ended_at) == ("running", None, None)
    assert (opened.result, opened.state, opened.spec) == (None, None, "sha256:y")


def test_a_row_whose_status_a_newer_version_wrote_is_opened_again() -> None:
    spec = AgentSpec(kind="agent", goal="g")
    status = first_status(spec, "r", now=AT).model_copy(update={"outcome": "accepted"})
    newer = json.dumps({**status.model_dump(mode="json"), "novelty": "of a newer version"})
    row = StoredRun(
        id="r",
        kind="agent",
        goal="g",
        label=None,
        lifecycle="completed",
        outcome="accepted",
        started_at=AT,
        ended_at=AT,
        status=newer,
    )
    opened = reopened(row)
    assert opened.status is not None
    assert RunStatus.model_validate_json(opened.status).outcome is None
