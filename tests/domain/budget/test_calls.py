"""What a model call may take of the envelope, and what it took in the end."""

from decimal import Decimal

import pytest

from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import (
    Budget,
    BudgetLimits,
    CallFit,
    LimitReached,
    Reservation,
)
from perdure.domain.llm.requests import Price
from perdure.domain.llm.usage import AttemptTotals, Usage
from tests.domain.budget.examples import account, budget

PRICE = Price(input_per_million=Decimal(3), output_per_million=Decimal(15))


# Fitting a call


@pytest.mark.parametrize(
    ("limits", "prompt", "expected"),
    [
        ({}, 50, 1000),
        ({"tokens": 1000, "wrap_up": 0}, 50, 950),
        ({"tokens": 1000}, 50, 850),
        ({"tokens": 66, "wrap_up": 0}, 50, 16),
        ({"tokens": 65, "wrap_up": 0}, 50, "tokens"),
        ({"output_tokens": 16}, 50, 16),
        ({"output_tokens": 15}, 50, "output_tokens"),
        ({"model_calls": 1}, 50, 1000),
        # 50 tokens in at a cache write's 3.75 and 20 out at 15 USD per million are 0.0004875.
        ({"cost_usd": "0.0004875", "wrap_up": 0}, 50, 20),
        ({"cost_usd": "0.0004874", "wrap_up": 0}, 50, 19),
        ({"cost_usd": "0.0001", "wrap_up": 0}, 50, "cost"),
        ({"tokens": 20, "cost_usd": "0.0001"}, 50, "tokens"),
    ],
    ids=str,
)
def test_the_output_is_capped_to_what_is_left(limits, prompt, expected):
    fit = budgets.fit_call(budget(**limits), prompt_tokens=prompt, wanted=1000, price=PRICE)
    assert (fit.max_tokens if isinstance(fit, CallFit) else fit.dimension) == expected


def test_a_spent_number_of_calls_refuses():
    fit = budgets.fit_call(
        budget({"model_calls": 3}, model_calls=3), prompt_tokens=1, wanted=10, price=None
    )
    assert isinstance(fit, LimitReached) and fit.text == "model_calls: 3 of 3"


def test_what_fits_is_what_is_reserved():
    fit = budgets.fit_call(budget(tokens=2000), prompt_tokens=100, wanted=500, price=PRICE)
    assert isinstance(fit, CallFit)
    assert fit.amounts == Reservation(
        tokens=600,
        output_tokens=500,
        model_calls=1,
        cost_usd=Decimal("0.007875"),  # 100 × 3.75 + 500 × 15, per million
    )


def test_a_short_answer_may_be_asked_for_where_little_is_left():
    fit = budgets.fit_call(budget(output_tokens=5), prompt_tokens=1, wanted=4, price=None)
    assert isinstance(fit, CallFit) and fit.max_tokens == 4


# Settling


def test_settling_replaces_the_reservation_by_what_was_used():
    held = budgets.reserve(
        budget(tokens=1000, cost_usd=1), "a", Reservation(tokens=900, cost_usd=Decimal("0.5"))
    )
    settled = budgets.settle(held, "a", account(used=100, out=20, cost="0.01", attempts=2))
    assert settled.reserved == {}
    assert (settled.spent.tokens, settled.spent.output_tokens) == (120, 20)
    assert (settled.spent.model_calls, settled.spent.cost_usd) == (2, Decimal("0.01"))
    assert settled.spent.usage == Usage(input_tokens=100, output_tokens=20)


@pytest.mark.parametrize(("counted", "tokens"), [(False, 130), (True, 1130)])
def test_cache_reads_are_paid_in_money_only(counted, tokens):
    usage = Usage(
        input_tokens=100,
        output_tokens=10,
        cache_read_tokens=1000,
        cache_write_5m_tokens=15,
        cache_write_1h_tokens=5,
    )
    settled = budgets.settle(budget(count_cache_reads=counted), "a", AttemptTotals(usage=usage))
    assert settled.spent.tokens == tokens


def test_lost_attempts_count_at_their_estimate():
    lost = AttemptTotals(
        attempts=1,
        lost_attempts=1,
        unconfirmed=Usage(input_tokens=40, output_tokens=8),
        unconfirmed_cost_usd=Decimal("0.02"),
    )
    spent = budgets.settle(budget(), "a", lost).spent
    assert (spent.tokens, spent.cost_usd) == (48, Decimal("0.02"))
    assert spent.unconfirmed.counted_tokens() == 48
    assert spent.unconfirmed_cost_usd == Decimal("0.02")


def test_an_unknown_cost_is_never_zero():
    spent = budgets.settle(budget(), "a", account(used=1, cost=None)).spent
    assert spent.cost_or_none is None
    again = budgets.settle(Budget(limits=BudgetLimits(), spent=spent), "b", account(cost="1"))
    assert again.spent.cost_or_none is None


def test_an_unknown_cost_hides_no_known_one():
    together = account(cost="0.5") + account(cost=None) + account(cost="0.25")
    spent = budgets.settle(budget(), "a", together).spent
    assert (spent.cost_usd, spent.unpriced) == (Decimal("0.75"), True)


def test_a_refund_has_one_effect():
    held = budgets.reserve(budget(tokens=100), "a", Reservation(tokens=60))
    once = budgets.release(held, "a")
    assert once.reserved == {} and budgets.release(once, "a") == once


def test_active_time_adds_up_and_never_runs_backwards():
    worked = budgets.add_active_time(budgets.add_active_time(budget(active_time=10), 1.25), -5)
    assert worked.spent.active_time == 1.25
