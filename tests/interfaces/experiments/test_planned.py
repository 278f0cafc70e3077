"""What an experiment could cost at most, by its budget and by the limits of its arms."""

from decimal import Decimal

import pytest

from perdure.domain.experiments.plan import (
    Arm,
    Entry,
    ExperimentBudget,
    JudgeScore,
    Plan,
    Scoring,
    Tries,
)
from perdure.interfaces.experiments.planned import planned

ENTRIES = [Entry(name="a", context={"x": "1"}), Entry(name="b", context={"x": "2"})]
JUDGED = Scoring(by="judge", judge=JudgeScore(criteria="c", model="m"))


def arm(most: str | None, **tries: object) -> Arm:
    return Arm(
        name=f"arm{most}",
        task={},
        most_usd=None if most is None else Decimal(most),
        tries=Tries.model_validate(tries) if tries else None,
    )


@pytest.mark.parametrize(
    ("arms", "budget", "scoring", "most"),
    [
        ((arm("0.5"),), None, Scoring(), "3"),
        ((arm("0.5"), arm("0.1", count=4)), None, Scoring(), "5.4"),
        ((arm("0.5"),), "2", Scoring(), "2"),
        ((arm("0.5"),), "9", Scoring(), "3"),
        ((arm(None),), "9", Scoring(), "9"),
        ((arm(None),), None, Scoring(), None),
        ((arm("0.5"), arm("0.1", spend="same_tokens", of="arm0.5")), None, Scoring(), None),
        ((arm("0.5"),), None, JUDGED, "4.5"),
        ((arm(None),), None, JUDGED, None),
        # Zero is no limit, as everywhere.
        ((arm("0.5"),), "0", Scoring(), "3"),
        ((arm(None),), "0", Scoring(), None),
    ],
)
def test_the_most_that_it_may_cost(
    arms: tuple[Arm, ...], budget: str | None, scoring: Scoring, most: str | None
) -> None:
    limit = ExperimentBudget(cost_usd=None if budget is None else Decimal(budget))
    plan = Plan(name="n", arms=arms, repeats=3, budget=limit, scoring=scoring)
    found = planned(plan, ENTRIES, notes=["told"])
    assert found.most_usd == (None if most is None else Decimal(most))
    judge = Decimal("0.25") if scoring is JUDGED else None
    assert (None if found.judge is None else found.judge.most_usd) == judge
    assert (found.trials, found.fields, found.notes) == (6 * len(arms), ("x",), ("told",))
