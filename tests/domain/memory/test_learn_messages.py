"""The envelope of a learning run, and its one sentence."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.accounting import AssumePrice, Budget, BudgetLimits
from perdure.domain.memory.learn_messages import (
    COST_USD,
    TOKENS,
    LearnState,
    in_words,
    learning_budget,
)


@pytest.mark.parametrize(
    ("limits", "tokens", "cost"),
    [
        pytest.param(BudgetLimits(), 20_000, "0.20", id="defaults"),
        pytest.param(BudgetLimits(tokens=50_000), 5_000, "0.20", id="few tokens"),
        pytest.param(BudgetLimits(cost_usd=Decimal("0.50")), 20_000, "0.05", id="little money"),
        pytest.param(BudgetLimits(tokens=None, cost_usd=None), 20_000, "0.20", id="unlimited"),
        pytest.param(BudgetLimits(tokens=0, cost_usd=Decimal(0)), 20_000, "0.20", id="zero"),
    ],
)
def test_a_tenth_and_never_more_than_little(limits: BudgetLimits, tokens: int, cost: str) -> None:
    own = learning_budget(limits)
    assert own.tokens == tokens
    assert own.cost_usd == Decimal(cost)


@given(st.integers(1, 10**9), st.decimals("0.01", "1000", places=2))
def test_it_never_exceeds_its_share(tokens: int, cost: Decimal) -> None:
    own = learning_budget(BudgetLimits(tokens=tokens, cost_usd=cost))
    assert own.tokens is not None
    assert own.cost_usd is not None
    assert 0 < own.tokens <= max(1, min(TOKENS, tokens // 10))
    assert 0 < own.cost_usd <= min(COST_USD, cost / 10)


@pytest.mark.parametrize(
    ("cost", "policy", "expected"),
    [
        pytest.param("2", "block", "block", id="blocked"),
        pytest.param("2", "unverified", "unverified", id="allowed"),
        pytest.param(None, "block", "unverified", id="no limit that would block"),
        pytest.param("0", "block", "unverified", id="zero, which is no limit"),
        pytest.param(None, AssumePrice(assume="m"), AssumePrice(assume="m"), id="assumed"),
    ],
)
def test_models_of_unknown_price_are_asked_where_the_run_may_ask_them(
    cost: str | None,
    policy: Literal["block", "unverified"] | AssumePrice,
    expected: Literal["block", "unverified"] | AssumePrice,
) -> None:
    limits = BudgetLimits(cost_usd=None if cost is None else Decimal(cost), unknown_price=policy)
    assert learning_budget(limits).unknown_price == expected


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param({}, "0 learnings kept", id="nothing"),
        pytest.param({"kept": 1}, "1 learning kept", id="one"),
        pytest.param({"kept": 2, "reinforced": 1}, "2 learnings kept, 1 reinforced", id="both"),
        pytest.param({"note": "why"}, "0 learnings kept; why", id="with a note"),
    ],
)
def test_one_sentence(facts: dict[str, object], words: str) -> None:
    started = datetime(2026, 3, 2, tzinfo=UTC)
    state = LearnState.model_validate(
        {"started_at": started, "budget": Budget(limits=BudgetLimits()), **facts}
    )
    assert in_words(state) == words
