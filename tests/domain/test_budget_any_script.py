"""The envelope under any script of calls: never exceeded, and what is held is what was reserved."""

from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import (
    DIMENSIONS,
    Budget,
    BudgetLimits,
    LimitReached,
    Reservation,
    Spend,
)
from perdure.domain.budget.amend import amend
from perdure.domain.llm.requests import Price
from perdure.domain.llm.usage import AttemptTotals, Usage

PRICE = Price(input_per_million=Decimal(3), output_per_million=Decimal(15))
UNLIMITED = {"tokens": None, "cost_usd": None, "active_time": None}


def budget(tokens_spent: int = 0, **limits: Any) -> Budget:
    return Budget(
        limits=BudgetLimits.model_validate({**UNLIMITED, **limits}),
        spent=Spend(tokens=tokens_spent),
    )


def exceeded(envelope: Budget) -> list[str]:
    """The dimensions that are overspent; wall time is nobody's spending."""
    return [
        name
        for name in DIMENSIONS
        if (limit := envelope.limits.limit(name)) is not None
        and envelope.spent.of(name, wall_time=0) > limit
    ]


AMOUNTS = st.builds(
    Reservation,
    tokens=st.integers(0, 500),
    output_tokens=st.integers(0, 300),
    model_calls=st.integers(0, 3),
    cost_usd=st.decimals(0, 2, places=6),
)


@given(st.dictionaries(st.text(max_size=2), AMOUNTS, max_size=6))
def test_what_is_held_is_the_sum_of_the_reservations(held):
    envelope = budget(tokens=1000)
    for key, amounts in held.items():
        envelope = budgets.reserve(envelope, key, amounts)
    for dimension in ("tokens", "output_tokens", "model_calls", "cost"):
        total = sum((amounts.of(dimension) for amounts in held.values()), Decimal(0))
        assert envelope.reserved_in(dimension) == total
    for key in held:
        envelope = budgets.release(envelope, key)
    assert envelope.reserved == {}


SOME_LIMITS = st.fixed_dictionaries(
    {
        "tokens": st.none() | st.integers(0, 3_000),
        "output_tokens": st.none() | st.integers(0, 800),
        "model_calls": st.none() | st.integers(0, 6),
        "cost_usd": st.none() | st.decimals(0, "0.05", places=4),
        "wrap_up": st.sampled_from([0.0, 0.1, 0.5]),
    }
)
CALL = st.tuples(
    st.integers(0, 900),  # the prompt as it is counted before the call
    st.integers(1, 500),  # the output that is wanted
    st.floats(0, 1),  # the share of its room that the reply uses
    st.booleans(),  # whether it is a closing call
    st.sampled_from(["input_tokens", "cache_write_5m_tokens", "cache_read_tokens"]),
)


@given(limits=SOME_LIMITS, calls=st.lists(CALL, max_size=25))
def test_calls_that_fit_never_exceed_a_limit(limits, calls):
    envelope, keys = budget(**limits), count()
    for prompt, wanted, share, wrap_up, kind in calls:
        fit = budgets.fit_call(
            envelope, prompt_tokens=prompt, wanted=wanted, price=PRICE, wrap_up=wrap_up
        )
        if isinstance(fit, LimitReached):
            continue
        key = str(next(keys))
        envelope = budgets.reserve(envelope, key, fit.amounts)
        usage = Usage(**{kind: prompt}, output_tokens=int(fit.max_tokens * share))
        used = AttemptTotals(attempts=1, usage=usage, cost_usd=PRICE.cost(usage))
        envelope = budgets.settle(envelope, key, used)
        assert exceeded(envelope) == []
        for dimension in DIMENSIONS:
            left = envelope.remaining(dimension)
            assert left is None or left >= 0
        assert 0 <= envelope.fraction_remaining() <= 1


@given(before=st.integers(0, 100), changes=st.fixed_dictionaries({"tokens": st.integers(1, 200)}))
def test_after_amending_nothing_is_exceeded(before, changes):
    envelope = budget(before, tokens=100)
    if changes["tokens"] < before:
        with pytest.raises(ValueError, match="below"):
            amend(envelope, changes, wall_time=0)
    else:
        assert exceeded(amend(envelope, changes, wall_time=0)) == []
