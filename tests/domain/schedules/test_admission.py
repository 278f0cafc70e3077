"""What a month leaves for a run."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.schedules.admission import Admitted, MonthlySpend, TurnedAway, admission
from perdure.domain.schedules.plan import MonthlyBudget

TASK = BudgetLimits(cost_usd=Decimal(2), tokens=1_000)
TEN = MonthlyBudget(cost_usd=Decimal(10))
CASES: dict[str, tuple[MonthlyBudget, MonthlySpend, Admitted]] = {
    "no limit": (
        MonthlyBudget(), MonthlySpend(cost_usd=Decimal(99)),
        Admitted(cost_usd=Decimal(2), tokens=1_000),
    ),
    "enough is left": (
        TEN, MonthlySpend(cost_usd=Decimal(8)), Admitted(cost_usd=Decimal(2), tokens=1_000),
    ),
    "less is left": (
        TEN, MonthlySpend(cost_usd=Decimal(9)),
        Admitted(cost_usd=Decimal(1), tokens=1_000, lowered=True),
    ),
    "open runs hold some": (
        TEN, MonthlySpend(cost_usd=Decimal(6), held_usd=Decimal("3.50"), holding=2),
        Admitted(cost_usd=Decimal("0.50"), tokens=1_000, lowered=True),
    ),
    "tokens too": (
        MonthlyBudget(tokens=5_000), MonthlySpend(tokens=4_500),
        Admitted(cost_usd=Decimal(2), tokens=500, lowered=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("month", "spend", "given_"), CASES.values(), ids=CASES.keys())
def test_a_run_gets_what_is_left(
    month: MonthlyBudget, spend: MonthlySpend, given_: Admitted
) -> None:
    assert admission(month, spend, TASK) == given_


def test_an_unlimited_task_is_limited_by_the_month() -> None:
    found = admission(TEN, MonthlySpend(), BudgetLimits(cost_usd=None, tokens=0))
    assert found == Admitted(cost_usd=Decimal(10), tokens=None, lowered=True)


@pytest.mark.parametrize(
    ("month", "spend", "words"),
    [
        (TEN, MonthlySpend(cost_usd=Decimal(10)), "10 of 10 USD of this month are spent"),
        (
            TEN,
            MonthlySpend(cost_usd=Decimal("8.5"), held_usd=Decimal("1.5"), holding=1),
            "8.5 of 10 USD of this month are spent, and 1 open run may still spend 1.5",
        ),
        (
            MonthlyBudget(tokens=10), MonthlySpend(tokens=4, held_tokens=6, holding=2),
            "4 of 10 tokens of this month are spent, and 2 open runs may still spend 6",
        ),
    ],
)  # fmt: skip
def test_where_nothing_is_left_a_start_is_refused_in_words(
    month: MonthlyBudget, spend: MonthlySpend, words: str
) -> None:
    unit = "USD" if month is TEN else "tokens"
    assert admission(month, spend, TASK) == TurnedAway(unit=unit, why=words)


amounts = st.decimals(min_value=0, max_value=1_000, places=2)


@given(
    month=st.builds(
        MonthlyBudget, cost_usd=st.none() | amounts, tokens=st.none() | st.integers(0, 10**6)
    ),
    spent=st.lists(st.tuples(amounts, st.integers(0, 10**5)), max_size=4),
    asked=st.lists(
        st.builds(
            BudgetLimits, cost_usd=st.none() | amounts, tokens=st.none() | st.integers(0, 10**6)
        ),
        max_size=8,
    ),
)
def test_runs_that_spend_all_they_are_given_never_spend_more_than_the_month(
    month: MonthlyBudget, spent: list[tuple[Decimal, int]], asked: list[BudgetLimits]
) -> None:
    usd, tokens = sum((one[0] for one in spent), Decimal(0)), sum(one[1] for one in spent)
    held_usd, held_tokens = Decimal(0), 0
    for one in asked:
        spend = MonthlySpend(
            cost_usd=usd, tokens=tokens, held_usd=held_usd, held_tokens=held_tokens
        )
        match admission(month, spend, one):
            case Admitted() as got:
                held_usd += got.cost_usd or 0
                held_tokens += got.tokens or 0
                if month.cost_usd:
                    assert got.cost_usd
                    assert usd + held_usd <= month.cost_usd
                if month.tokens:
                    assert got.tokens
                    assert tokens + held_tokens <= month.tokens
            case TurnedAway():
                assert not month.unlimited
