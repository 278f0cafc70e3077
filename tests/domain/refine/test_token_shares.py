"""The ceilings of the iterations, and what rolls on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.accounting import Budget, BudgetLimits, Spend
from perdure.domain.refine.token_savings import ceiling, is_share_used


@pytest.mark.parametrize(
    ("permitted", "ceilings"),
    [
        pytest.param(1, [1.0], id="one"),
        pytest.param(2, [0.40, 1.0], id="two"),
        pytest.param(3, [0.40, 0.75, 1.0], id="three: recall 10, then 30, 35, 25"),
        pytest.param(5, [0.40, 0.75, 0.75 + 0.25 / 3, 0.75 + 0.5 / 3, 1.0], id="five: rest even"),
    ],
)
def test_ceilings(permitted: int, ceilings: list[float]) -> None:
    found = [ceiling(n, permitted=permitted) for n in range(1, permitted + 1)]
    assert found == pytest.approx(ceilings)


@given(st.integers(1, 1_000), st.data())
def test_ceilings_rise_to_everything(permitted: int, data: st.DataObject) -> None:
    iteration = data.draw(st.integers(1, permitted))
    assert 0 < ceiling(iteration, permitted=permitted) <= 1.0
    assert ceiling(iteration, permitted=permitted) <= ceiling(iteration + 1, permitted=permitted)
    assert ceiling(permitted, permitted=permitted) == 1.0


@pytest.mark.parametrize(
    ("spent", "iteration", "used"),
    [
        pytest.param(399, 1, False, id="just under the first share"),
        pytest.param(400, 1, True, id="at the first share"),
        pytest.param(400, 2, False, id="the second opens more"),
        pytest.param(750, 2, True, id="at the second"),
        pytest.param(999, 3, False, id="the last may have all"),
    ],
)
def test_a_share_is_used(spent: int, iteration: int, used: bool) -> None:
    budget = Budget(limits=BudgetLimits(tokens=1_000), spent=Spend(tokens=spent))
    assert is_share_used(budget, iteration, permitted=3) is used


def test_without_a_token_limit_no_share_is_used() -> None:
    budget = Budget(limits=BudgetLimits(tokens=None), spent=Spend(tokens=10**9))
    assert not is_share_used(budget, 1, permitted=3)
