"""How iterations are compared, and when the same findings came back."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.usage import Usage
from perdure.domain.outputs.diff import output_hash
from perdure.domain.roles import iteration_rules as rules
from perdure.domain.roles.definition import LoopDefinition
from perdure.domain.roles.iteration_rules import better
from perdure.domain.roles.review_reply import (
    came_back,
    read_verdict,
    review_of,
    topic,
    verdict_line,
)
from perdure.domain.roles.state import KeptIteration, RoleState, StageDone
from perdure.domain.turns.records import IterationRecord, StageRecord
from perdure.domain.turns.turn import TurnState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CODING = LoopDefinition.model_validate(
    {
        "name": "coding",
        "roles": [{"role": "coder", "prompt": "Code."}],
        "termination_condition": {"type": "repeated_output"},
    }
)


def kept(iteration: int, **fields: object) -> KeptIteration:
    return KeptIteration(iteration=iteration, output=BlobRef(hash=f"sha256:{iteration}"), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second", "best"),
    [
        pytest.param(kept(1), kept(2), 2, id="nothing known: the newer"),
        pytest.param(kept(1, open=3), kept(2, open=1), 2, id="fewer open findings"),
        pytest.param(kept(1, open=1), kept(2, open=1), 2, id="as many: the newer"),
        pytest.param(kept(1, open=1), kept(2, open=3), 1, id="more open findings: the older stays"),
        pytest.param(kept(1, open=1), kept(2), 2, id="one was not counted"),
        pytest.param(kept(1, open=0), kept(2, open=5, approved=True), 2, id="an approved one"),
        pytest.param(kept(1, approved=True), kept(2, open=0), 1, id="approved is never replaced"),
        pytest.param(kept(1, partial=True, open=0), kept(2, open=9), 2, id="a whole one"),
    ],
)
def test_the_better_of_two_iterations(
    first: KeptIteration, second: KeptIteration, best: int
) -> None:
    assert better(first, second).iteration == best


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        ("No tests for the parser", "No tests for the parser", True),
        ("No tests for the parser", "The parser still has no tests", True),
        ("No tests for the parser", "Startup takes nine seconds", False),
        ("", "", False),
    ],
)
def test_findings_are_told_apart_by_their_words(before: str, now: str, same: bool) -> None:
    assert bool(came_back([topic(before)], [topic(now)])) is same


@given(st.lists(st.text(max_size=80), max_size=6), st.lists(st.text(max_size=80), max_size=6))
def test_what_came_back_is_part_of_the_newest(before: list[str], now: list[str]) -> None:
    topics = [topic(text) for text in now]
    found = came_back([topic(text) for text in before], topics)
    assert set(found) <= set(topics)
    assert came_back([], topics) == ()


@given(st.text(max_size=3_000))
def test_a_review_is_bounded_whatever_was_said(text: str) -> None:
    review = review_of(read_verdict(text), text)
    assert len(review.model_dump_json()) < 30_000
    assert review.open >= len(review.findings) or not review.listed


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"rationale": "It is\n  slow."}, "rejected: It is slow."),
        (
            {
                "findings": [
                    {"title": "no tests", "severity": "blocker"},
                    {"title": "slow", "severity": "important"},
                ]
            },
            "rejected: no tests; slow",
        ),
        ({}, "rejected"),
        ({"requirements_met": True, "quality_pass": True, "rationale": "Fine."}, "approved: Fine."),
    ],
    ids=["in the reviewer's words", "by its findings", "without a word", "approved"],
)
def test_a_verdict_in_one_line(fields: dict[str, object], told: str) -> None:
    given = {"requirements_met": False, "quality_pass": False, "findings": [], **fields}
    assert verdict_line(read_verdict(json.dumps(given))) == told


def test_a_verdict_that_cannot_be_used_says_why() -> None:
    told = verdict_line(read_verdict('{"requirements_met": "perhaps", "quality_pass": 7}'))
    assert told.startswith("unclear: ")
    assert "requirements_met" in told


def made(text: str, *, tree: str | None = None, **fields: object) -> RoleState:
    """A state after the stages of an iteration that delivered a text."""
    core = RoleState(started_at=NOW, budget=Budget(limits=BudgetLimits()), tree=tree)
    record = StageRecord(name="coder", role="coder", status="completed")
    one = StageDone(record=record, ref=BlobRef(hash="sha256:t"), canonical=output_hash(text))
    return core.model_copy(update={"done": [one], **fields})


@pytest.mark.parametrize(
    ("first", "then", "repeated"),
    [
        pytest.param(made("a b"), made("a b  \n"), True, id="laid out otherwise"),
        pytest.param(made('{"a": 1, "b": 2}'), made('{"b":2,"a":1}'), True, id="the same JSON"),
        pytest.param(made("a b"), made("a c"), False, id="other words"),
        pytest.param(made("done", tree="t1"), made("done", tree="t2"), False, id="other files"),
        pytest.param(made("done", tree="t1"), made("done", tree="t1"), True, id="the same files"),
        pytest.param(made(""), made(""), False, id="nothing is no output"),
    ],
)
def test_an_output_that_was_seen_before(first: RoleState, then: RoleState, repeated: bool) -> None:
    rules.complete(first, CODING, CODING.termination_condition)
    assert first.repeated is False
    following = then.model_copy(update={"seen": first.seen})
    rules.complete(following, CODING, CODING.termination_condition)
    assert following.repeated is repeated
    rules.begin_iteration(following, now=NOW)
    assert following.repeated is False


@pytest.mark.parametrize(
    ("tokens", "cost", "limits", "used"),
    [
        (40, "0.10", {"tokens": 100, "cost_usd": "1"}, False),
        (50, "0.10", {"tokens": 100, "cost_usd": "1"}, True),
        (40, "0.50", {"tokens": 100, "cost_usd": "1"}, True),
        (40, "0.50", {"tokens": 100, "cost_usd": None}, False),
        (90, "0.50", {"tokens": None, "cost_usd": "1"}, True),
        (90, None, {"tokens": None, "cost_usd": "1"}, False),
    ],
    ids=["neither", "tokens", "money", "money without limit", "only money", "price unknown"],
)
def test_a_share_is_used_up_by_tokens_or_money(
    tokens: int, cost: str | None, limits: dict[str, object], used: bool
) -> None:
    role = CODING.roles[0].model_copy(update={"budget": 0.5})
    core = RoleState(started_at=NOW, budget=Budget(limits=BudgetLimits.model_validate(limits)))
    price = Decimal(cost) if cost is not None else None
    core.turn = TurnState(
        record=IterationRecord(index=1, usage=Usage(output_tokens=tokens), cost_usd=price)
    )
    assert rules.is_share_used(core, role, count_cache_reads=False) is used
    record = StageRecord(
        name=role.name, role=role.role, status="completed", tokens=tokens, cost_usd=price
    )
    rules.end_stage(core, record, None)
    later = rules.is_share_used(core, role, count_cache_reads=False)
    assert later is used, "also in later iterations"


@pytest.mark.parametrize("counted", [True, False])
def test_a_share_counts_cache_reads_where_the_budget_does(counted: bool) -> None:
    role = CODING.roles[0].model_copy(update={"budget": 0.5})
    core = RoleState(started_at=NOW, budget=Budget(limits=BudgetLimits(tokens=100)))
    usage = Usage(output_tokens=5, cache_read_tokens=50)
    core.turn = TurnState(record=IterationRecord(index=1, usage=usage))
    assert rules.is_share_used(core, role, count_cache_reads=counted) is counted
    done = rules.stage_record(core, role, status="completed", count_cache_reads=counted)
    rules.end_stage(core, done, None)
    assert rules.is_share_used(core, role, count_cache_reads=counted) is counted


def test_outputs_that_nobody_compares_are_not_kept() -> None:
    core = made("a")
    core.done = [one.model_copy(update={"canonical": None}) for one in core.done]
    rules.complete(core, CODING, CODING.termination_condition)
    assert (core.seen, core.repeated) == ((), False)


@pytest.mark.parametrize(
    ("gate", "output"),
    [("review", "sha256:code"), (None, "sha256:review"), ("code", "sha256:review")],
    ids=["not the review", "nobody reviews", "a review in the midst"],
)
def test_what_there_is_of_an_iteration_that_was_cut_short(gate: str | None, output: str) -> None:
    core = RoleState(started_at=NOW, budget=Budget(limits=BudgetLimits()))
    core.done = [
        StageDone(
            record=StageRecord(name=name, role=name, status="cut"),
            ref=BlobRef(hash=f"sha256:{name}"),
        )
        for name in ("code", "review")
    ]
    found = rules.partial(core, gate=gate)
    assert found is not None and found.output is not None
    assert (found.output.hash, found.partial) == (output, True)
    core.done = []
    assert rules.partial(core, gate=gate) is None
