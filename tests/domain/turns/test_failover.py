"""Which model follows one that failed."""

from decimal import Decimal

import pytest

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.llm.requests import ModelProfile, Price
from perdure.domain.turns.failover import first_model, is_price_missing, left_behind, next_model

WINDOWS = {"small": 10, "same": 10, "large": 20, "larger": 40}
CARDS = {
    name: ModelProfile(name=name, price=None, window=window) for name, window in WINDOWS.items()
}


@pytest.mark.parametrize(
    ("chain", "index", "overflow", "following"),
    [
        (["small"], 0, False, None),
        (["small", "same"], 0, False, 1),
        (["small", "same"], 1, False, None),
        (["small", "same", "large"], 0, True, 2),
        (["small", "same"], 0, True, None),
        (["large", "small", "larger"], 0, True, 2),
        (["large", "small"], 0, False, 1),
    ],
    ids=[
        "alone",
        "the next",
        "the last",
        "larger only",
        "none is larger",
        "smaller is skipped",
        "any window without overflow",
    ],
)
def test_the_next_model(chain, index, overflow, following):
    assert next_model(chain, index, CARDS, overflow=overflow) == following


@pytest.mark.parametrize(
    ("failed", "following", "told"),
    [
        (ModelProfile(name="a", price=None), "b", "thoughts and prompt cache of a"),
        (ModelProfile(name="a", price=None), "a", None),
        (ModelProfile(name="local", price=None, thinking=()), "b", None),
        (None, "b", None),
    ],
    ids=["another model", "the same", "one that cannot think", "one that nobody knows"],
)
def test_what_only_the_failed_model_could_use_is_told(failed, following, told):
    assert left_behind(failed, following) == told


@pytest.mark.parametrize(
    ("failing", "first"), [((), 0), (("a",), 1), (("b",), 0), (("a", "b"), 2), (("a", "b", "c"), 0)]
)
def test_new_runs_skip_what_failed_a_moment_ago(failing, first):
    assert first_model(["a", "b", "c"], failing) == first


FREE = Price(input_per_million=Decimal(0), output_per_million=Decimal(0))


@pytest.mark.parametrize(
    ("limits", "price", "forbidden"),
    [
        ({}, None, True),
        ({}, FREE, False),
        ({"cost_usd": None}, None, False),
        ({"cost_usd": 0}, None, False),
        ({"unknown_price": "unverified"}, None, False),
        ({"unknown_price": {"assume": "typo"}}, None, True),
        ({"unknown_price": {"assume": "known"}}, FREE, False),
    ],
    ids=[
        "unknown price",
        "free by an entry",
        "no limit",
        "zero is no limit",
        "unverified",
        "a stand-in without a price",
        "a stand-in with a price",
    ],
)
def test_a_cost_limit_forbids_unknown_prices(limits, price, forbidden):
    budget = Budget(limits=BudgetLimits.model_validate(limits))
    assert is_price_missing(budget, ModelProfile(name="m", price=price)) is forbidden
