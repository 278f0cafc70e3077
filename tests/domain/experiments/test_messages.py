"""What an experiment knows it spent, after each run and by what its store kept."""

from decimal import Decimal

import pytest

from perdure.domain.experiments import judging
from perdure.domain.experiments.messages import (
    Progress,
    Resumption,
    SettleTrialReport,
    StoredSpend,
    progress_of,
    spent_with,
    stop_mode,
)
from perdure.domain.experiments.trials import Trial, Try, try_of
from perdure.domain.run.result import RunResult, SpendReport


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


def test_an_experiment_that_goes_on_remembers_known_costs_beside_unknown_ones() -> None:
    spend = SpendReport(tokens=7, cost_usd=None, known_cost_usd=Decimal("1.25"))
    result = RunResult(
        id="r", kind="agent", outcome="accepted", reason="completed", explanation="", spend=spend
    )
    unpriced = judging.judged(try_of(result, []), result.model_copy(update={"id": "j"}), None)
    priced = Try(run="s", outcome="accepted", cost_usd=Decimal("0.5"), tokens=3)
    trials = [
        Trial(number=0, arm="a", entry=0, tries=(unpriced,), ended=True),
        Trial(number=2, arm="a", entry=2, tries=(priced,), ended=True),
    ]
    found = progress_of(trials)
    assert (found.following, found.ended, found.spent_tokens) == (1, 1, 17)
    assert found.spent_usd == Decimal("3.00")


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ((), "graceful"),
        (("graceful",), "graceful"),
        (("now",), "now"),
        (({"mode": "now", "by": "me"},), "now"),
        (({"mode": "graceful"},), "graceful"),
        ((None, ["now"], {"mode": ["now"]}), "graceful"),
    ],
)
def test_a_stop_is_read_in_every_form(given: tuple[object, ...], mode: str) -> None:
    assert stop_mode(given) == mode


@pytest.mark.parametrize(
    ("given", "why"), [("now", '"now"'), ({"cost_usd": "much"}, "cost_usd"), ([5], "[5]")]
)
def test_a_resumption_that_cannot_be_read_says_why(given: object, why: str) -> None:
    found = Resumption.of(given)
    assert isinstance(found, str)
    assert why in found


@pytest.mark.parametrize("given", [None, {}, {"another": 1}])
def test_a_resumption_without_limits_changes_none(given: object) -> None:
    assert Resumption.of(given) == Resumption()
