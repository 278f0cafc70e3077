"""What a run of each arm and of the judge may spend, by limits and prices."""

from decimal import Decimal

import pytest
from pydantic import JsonValue

from perdure.domain.experiments.plan import Entry, Plan
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.llm.requests import ModelProfile, Price
from perdure.interfaces.experiments.bounds import bounded, check_added
from perdure.submission.experiments import experiment_of
from perdure.submission.types import Surroundings

PER_MILLION = {"small": 1, "dear": 100}
TASK: JsonValue = {
    "kind": "agent",
    "goal": "Write.",
    "context": {"about": None},
    "models": {"executor": "small"},
    "budget": {"cost_usd": 0.2, "tokens": 20_000},
}


class Models:
    async def card(self, model: str) -> ModelProfile:
        price = Price(input_per_million=Decimal(0), output_per_million=Decimal(PER_MILLION[model]))
        return ModelProfile(name=model, window=200_000, max_output=20_000, price=price)


async def plan_of(*changes: JsonValue, budget: JsonValue = None) -> Plan:
    inputs: list[JsonValue] = [{"about": "a", "set": change} for change in changes]
    made = experiment_of(
        {
            "task": TASK,
            "inputs": inputs,
            "arms": {"a": {}},
            "score": {"judge": "Good?", "model": "small"},
            "budget": budget,
        },
        surroundings=Surroundings(folder=None, judges=lambda _: True),
    )
    return await bounded(made.plan, made.entries, Models(), default_model="small")


async def test_prices_bound_a_run_and_its_judge() -> None:
    plan = await plan_of({})
    assert plan.held(plan.arms[0]).cost_usd == Decimal("0.02") + Decimal("0.1")


@pytest.mark.parametrize(
    ("change", "usd", "tokens"),
    [
        ({"budget": {"tokens": 60_000}}, "0.06", 60_000),
        ({"budget": {"cost_usd": 50}}, "0.02", 20_000),
        ({"models": {"executor": "dear"}}, "0.2", 20_000),
        ({"budget": {"cost_usd": 50, "tokens": 9_000_000}}, "9", 9_000_000),
    ],
)
async def test_an_input_that_may_spend_more_counts_for_its_arm(
    change: JsonValue, usd: str, tokens: int
) -> None:
    (arm,) = (await plan_of({}, change)).arms
    assert (arm.most_usd, arm.most_tokens) == (Decimal(usd), tokens)


async def test_a_budget_below_a_run_with_its_judge_is_refused() -> None:
    with pytest.raises(InvalidInput, match="one run of a with its judge may spend"):
        await plan_of({}, budget={"cost_usd": 0.1})


async def test_an_added_input_may_not_spend_more_than_is_set_aside() -> None:
    plan = await plan_of({})

    async def add(**fields: JsonValue) -> None:
        entry = Entry(name="late", context={"about": "b"}, fields=fields)
        await check_added(plan, [entry], Models(), default_model="small")

    await add()
    await add(goal="Write more.", budget={"cost_usd": 1})
    limits: list[JsonValue] = [{"tokens": 30_000}, {"tokens": 0}]
    for one in limits:
        with pytest.raises(InvalidInput, match=r"inputs\.late: found .* the experiment sets aside"):
            await add(budget=one)
    with pytest.raises(InvalidInput, match="cost_usd"):
        await add(models={"executor": "dear"})
