"""The account of what was not sent: never a negative surprise, never more than was there."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, EvaluationMode
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tokens import TokenSizes
from perdure.domain.llm.usage import AttemptTotals, Usage
from perdure.domain.refine.result import savings_of
from perdure.domain.refine.state import Draft, RefineState
from perdure.domain.refine.token_savings import economized, saved_share, sent_by_phase
from perdure.domain.run.cost_report import charged
from perdure.domain.scoring.judging import (
    evaluator_limit,
    evaluator_share_refusal,
    evaluator_tokens,
    judge_room,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUBRIC = Rubric.model_validate([{"name": "tone", "evaluator": {"judge": {}}}])
EVALUATION = Evaluation(dimensions=(DimensionScore(name="tone", score=1.0, source="judge"),))


def new_state(tokens: int | None = 100_000) -> RefineState:
    return RefineState(started_at=NOW, budget=Budget(limits=BudgetLimits(tokens=tokens)))


def spend(state: RefineState, phase: str, tokens: int) -> None:
    account = AttemptTotals(attempts=1, usage=Usage(input_tokens=tokens), cost_usd=Decimal(0))
    state.by_phase = charged(state.by_phase, phase, account)


def iterate(
    state: RefineState, kind: EvaluationMode, *, prompt: int, judge: int, output: int
) -> None:
    state.draft = Draft(sent=sent_by_phase(state), evaluation=EVALUATION, kind=kind)
    state.draft.output = BlobRef(hash="sha256:x", tokens=TokenSizes(prose=output))
    spend(state, "executing", prompt)
    if judge:
        spend(state, "evaluating", judge)
        state.draft.asked, state.draft.judge_prompt = ("tone",), judge
    state.economy = economized(state, RUBRIC, threshold=0.8)


def test_a_partial_evaluation_is_measured_against_a_whole_one_of_the_same_output() -> None:
    state = new_state()
    iterate(state, "full", prompt=1_000, judge=2_000, output=500)
    assert saved_share(state.economy) is None
    iterate(state, "incremental", prompt=700, judge=900, output=600)
    # Naive: 1,000 and the draft of 500; 2,000 and 100 more of output.
    assert (state.economy.sent, state.economy.naive) == (1_600, 1_500 + 2_100)
    assert saved_share(state.economy) == round(1 - 1_600 / 3_600, 4)
    assert state.economy.judge_calls_saved == 0
    iterate(state, "incremental", prompt=700, judge=0, output=600)
    assert state.economy.judge_calls_saved == 1
    assert state.economy.evaluations_skipped == 0
    iterate(state, "skipped_confident", prompt=700, judge=0, output=600)
    assert (state.economy.judge_calls_saved, state.economy.evaluations_skipped) == (2, 1)


KINDS: tuple[EvaluationMode, ...] = (
    "full",
    "incremental",
    "skipped_confident",
    "skipped_identical",
    "failed",
    "none",
)
STEPS = st.tuples(
    st.sampled_from(KINDS), st.integers(1, 5_000), st.integers(0, 5_000), st.integers(0, 2_000)
)


@settings(deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=12))
def test_savings_never_fall_and_naive_is_never_less_than_what_was_sent(
    steps: list[tuple[EvaluationMode, int, int, int]],
) -> None:
    state, before = new_state(), 0
    for kind, prompt, judge, output in steps:
        iterate(state, kind, prompt=prompt, judge=judge, output=output)
        economy = state.economy
        assert economy.naive >= economy.sent >= prompt
        assert economy.spared >= before
        share = saved_share(economy)
        assert share is None or 0 <= share < 1
        before = economy.spared
    saved = savings_of(state)
    assert saved.naive_input_tokens >= saved.input_tokens


@pytest.mark.parametrize(
    ("tokens", "share", "limit", "room"),
    [(100_000, 0.3, 30_000, 17_000), (100_000, 0.1, 10_000, -3_000), (None, 0.3, None, None)],
    ids=["room", "spent", "no limit"],
)
def test_the_share_of_the_evaluator(
    tokens: int | None, share: float, limit: int | None, room: int | None
) -> None:
    state = new_state(tokens)
    spend(state, "evaluating", 12_000)
    assert evaluator_limit(state, share) == limit
    assert evaluator_tokens(state) == 12_000
    assert judge_room(state, share=share, prompt_tokens=1_000) == room


def test_a_spent_share_says_what_to_do() -> None:
    state = new_state()
    spend(state, "evaluating", 12_000)
    text = evaluator_share_refusal(state, 0.1).text
    assert "12,000 of the 10,000 tokens" in text
    assert "raise refine.evaluator_share or budget.tokens" in text
