"""What an experiment knows it spent, after each run and by what its store kept."""

from decimal import Decimal

import pytest

from perdure.domain.experiments.messages import (
    Progress,
    SettleTrialReport,
    StoredSpend,
    spent_with,
)


def settled(usd: str | None, whole: StoredSpend | None) -> SettleTrialReport:
    cost = None if usd is None else Decimal(usd)
    return SettleTrialReport(cost_usd=cost, tokens=60, whole=whole)


@pytest.mark.parametrize("usd", [None, Decimal("0.1")])
def test_a_run_that_is_settled_again_is_counted_once(usd: Decimal | None) -> None:
    before = Progress(spent_tokens=60, spent_usd=usd or Decimal(0))
    whole = StoredSpend(usd=usd, tokens=60)
    again = settled(None if usd is None else str(usd), whole)
    assert spent_with(before, again) == before


def test_known_costs_are_added_where_the_store_lacks_a_price() -> None:
    before = Progress(spent_tokens=60, spent_usd=Decimal("0.1"))
    after = spent_with(before, settled("0.2", StoredSpend(usd=None, tokens=120)))
    assert (after.spent_usd, after.spent_tokens) == (Decimal("0.3"), 120)


def test_a_report_of_an_earlier_version_is_added() -> None:
    after = spent_with(Progress(spent_tokens=60), settled("0.2", None))
    assert (after.spent_usd, after.spent_tokens) == (Decimal("0.2"), 120)
