"""The share of a child run: taken off the parent at once, and never more than remains."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import Budget, BudgetLimits, LimitReached, Spend
from perdure.domain.budget.allowances import allocate_child
from perdure.domain.budget.amend import beyond_share_refusal
from perdure.domain.llm.usage import AttemptTotals, Usage


def budget(spent: dict[str, object] | None = None, **limits: object) -> Budget:
    unlimited = {"tokens": None, "cost_usd": None, "active_time": None}
    return Budget(
        limits=BudgetLimits.model_validate({**unlimited, **limits}),
        spent=Spend.model_validate(spent or {}),
    )


def test_three_siblings_get_thirty_twentyone_and_fourteen():
    parent = budget(iterations=100)
    shares: list[int | None] = []
    for name in ("a", "b", "c"):
        given_ = allocate_child(parent, name, fraction=0.3)
        assert not isinstance(given_, LimitReached)
        parent, limits = given_
        shares.append(limits.iterations)
    assert shares == [30, 21, 14]
    assert parent.remaining("iterations") == 35


@pytest.mark.parametrize(
    ("fraction", "siblings", "tokens"),
    [
        (None, 1, 300),
        (None, 2, 300),
        (None, 4, 200),
        (None, 8, 100),
        (0.01, 1, 50),
        (0.05, 1, 50),
        (0.95, 1, 950),
        (1.0, 1, 950),
    ],
)
def test_fractions_are_clamped_and_shared(fraction, siblings, tokens):
    given_ = allocate_child(
        budget(tokens=1000, wrap_up=0), "a", fraction=fraction, siblings=siblings
    )
    assert not isinstance(given_, LimitReached) and given_[1].tokens == tokens


def test_times_are_shared_and_depth_is_counted_down():
    given_ = allocate_child(budget(wall_time=60, active_time=30, depth=4), "a")
    assert not isinstance(given_, LimitReached)
    limits = given_[1]
    assert (limits.wall_time, limits.active_time, limits.depth) == (60, 30, 3)


def test_money_is_shared_rounding_down():
    given_ = allocate_child(budget(cost_usd="0.0000105", wrap_up=0), "a", fraction=0.3)
    assert not isinstance(given_, LimitReached) and given_[1].cost_usd == Decimal("0.000003")


def test_a_spent_parent_refuses_children():
    refused = allocate_child(budget({"workers": 2}, workers=2), "a")
    assert isinstance(refused, LimitReached) and refused.dimension == "workers"


def test_what_a_child_did_not_use_comes_back_once():
    given_ = allocate_child(budget(tokens=1000, wrap_up=0), "a", fraction=0.5)
    assert not isinstance(given_, LimitReached)
    parent = budgets.settle(
        given_[0], "a", AttemptTotals(attempts=1, usage=Usage(input_tokens=20)), calls=1
    )
    assert parent.remaining("tokens") == 980


@pytest.mark.parametrize(
    ("limits", "spent"),
    [
        ({"workers": 2}, {}),
        ({"tool_calls": 9}, {"tool_calls": 8}),
        ({"cost_usd": "0.0000001", "wrap_up": 0}, {}),
    ],
    ids=["few workers", "one tool call left", "next to no money"],
)
def test_a_small_share_never_becomes_an_unlimited_one(limits, spent):
    parent = budget(spent, **limits)
    child = allocate_child(parent, "a", fraction=0.05)
    assert not isinstance(child, LimitReached)
    for dimension in budgets.DIMENSIONS:
        limit, left = child[1].limit(dimension), parent.remaining(dimension)
        assert left is None or (limit is not None and 0 < limit <= left)


@given(
    tokens=st.integers(1, 100_000), wanted=st.lists(st.floats(0.01, 1.5), min_size=1, max_size=8)
)
def test_children_together_never_get_more_than_remains(tokens, wanted):
    parent, given_out = budget(tokens=tokens, wrap_up=0), 0
    for index, fraction in enumerate(wanted):
        child = allocate_child(parent, str(index), fraction=fraction)
        if isinstance(child, LimitReached):
            break
        parent, limits = child
        given_out += limits.tokens or 0
    assert given_out <= tokens
    assert parent.remaining("tokens") == tokens - given_out
    assert given_out <= tokens


SHARE = BudgetLimits(tokens=1_000, cost_usd=Decimal("5.40"), model_calls=None)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cost_usd": "5.41"}, "budget.cost_usd: 5.41 is more than the 5.4 that root has put"),
        ({"cost_usd": None}, "budget.cost_usd: no limit is more than the 5.4"),
        ({"tokens": 0}, "budget.tokens: no limit is more than the 1000"),
        ({"tokens": 900, "cost_usd": 1_000}, "budget.cost_usd: 1000 is more"),
        ({"tokens": 1_000, "cost_usd": "5.40"}, None),  # back to the share, after it had less
        ({"model_calls": 3}, None),
        ({"wall_time": 9_000, "active_time": None}, None),
    ],
)
def test_a_share_may_be_made_smaller_and_never_larger(
    changes: dict[str, object], told: str | None
) -> None:
    now = SHARE.model_copy(update={"tokens": 500, "cost_usd": Decimal(1)})
    why = beyond_share_refusal(now, changes, share=SHARE, parent="root")
    assert (why or "").startswith(told or "") if told else why is None


def test_a_child_that_has_spent_its_share_ends() -> None:
    made = allocate_child(budget(tokens=1_000, on_exhausted="ask"), "a")
    assert not isinstance(made, LimitReached)
    assert made[1].on_exhausted == "abort"
