"""An experiment spends no more than its budget, whatever its inputs and its judge may spend."""

import uuid
from decimal import Decimal
from typing import Any

import pytest
from experiment_lab import Lab, better_each_time
from installation import Installation
from pydantic import JsonValue
from waiting import eventually

from perdure.domain.experiments.messages import Progress

ONE_DRAFT: JsonValue = {"single": {"refine.max_iterations": 1}}
SMALL: JsonValue = {"budget": {"cost_usd": 0.2, "tokens": 20_000}}


@pytest.fixture
def lab(site: Installation) -> Lab:
    return Lab(site)


def named() -> str:
    return f"exp-budget-{uuid.uuid4().hex[:6]}"


async def dear_judge(lab: Lab) -> str:
    """A judge of which each verdict costs 20 cents."""
    usage = {"input_tokens": 0, "output_tokens": 20_000}
    said = {"text": '{"score": 0.5, "reason": "dull"}', "times": 99, "usage": usage}
    price = {"input_per_million": 10.0, "output_per_million": 10.0}
    return await lab.site.script({"price": price, "max_output": 20_000, "replies": [said]})


@pytest.mark.long
async def test_what_a_judge_may_spend_is_set_aside_with_its_run(lab: Lab) -> None:
    """A run and its judge may spend 45 cents and spend 20.15: of 70 cents two trials end."""
    score: JsonValue = {"judge": "Is it good?", "model": await dear_judge(lab)}
    id = await lab.start(
        named(),
        *"abcdefgh",
        arms=ONE_DRAFT,
        task=SMALL,
        score=score,
        budget={"cost_usd": 0.7},
        parallel=8,
    )
    status = await lab.ended(id)
    assert (status.reason, status.ended) == ("budget", 2)
    assert status.spent_usd == 2 * Decimal("0.2015")
    assert len(await lab.runs(id)) == 4
    await lab.experiments.resume(id, cost_usd=Decimal(9))
    assert (await lab.ended(id)).ended == 8


@pytest.mark.long
async def test_an_output_is_judged_once_the_budget_pays_for_it(lab: Lab) -> None:
    """A run without limits begins while anything is left; what it leaves is too little."""
    id = await lab.start(
        named(),
        "a",
        arms=ONE_DRAFT,
        task={"budget": {"cost_usd": 0, "tokens": 0}},
        score={"judge": "Is it good?", "model": await dear_judge(lab)},
        budget={"cost_usd": 0.2},
    )
    status = await lab.ended(id)
    assert (status.reason, status.spent_usd) == ("budget", Decimal("0.0015"))
    await lab.experiments.resume(id, cost_usd=Decimal(1))
    assert (await lab.ended(id)).reason == "completed"
    assert (await lab.trials(id))[0].tries[0].held_out == 0.5
    assert len(await lab.runs(id)) == 2


async def left_open(lab: Lab) -> str:
    """A trial whose second try does not fit beside the dear trial, which is still at work."""
    slow: dict[str, Any] = better_each_time()
    slow["replies"][1]["delay_s"] = 5
    id = await lab.start(
        named(),
        "a",
        arms={"best": {"best_of": 2, "budget.cost_usd": 0.1}, "dear": {"budget.cost_usd": 0.2}},
        budget={"cost_usd": 0.301},
        parallel=2,
        script=slow,
    )

    async def unpaid() -> bool:
        return (await lab.site.handle(id).query("progress", result_type=Progress)).unpaid

    await eventually(unpaid)
    return id


async def test_a_trial_that_was_left_open_goes_on_when_the_budget_is_raised(lab: Lab) -> None:
    id = await left_open(lab)
    await lab.experiments.resume(id, cost_usd=Decimal(5))
    status = await lab.ended(id)
    assert (status.reason, status.ended, len(await lab.runs(id))) == ("completed", 2, 3)


async def test_one_whose_trials_have_all_ended_is_completed_whatever_is_left(lab: Lab) -> None:
    """What is left then pays for no further run of the dear arm, whose only trial has ended."""
    id = await left_open(lab)
    assert (await lab.ended(id)).reason == "budget"
    await lab.experiments.resume(id, cost_usd=Decimal("0.11"))
    status = await lab.ended(id)
    assert (status.reason, status.ended, len(await lab.runs(id))) == ("completed", 2, 3)


@pytest.mark.long
async def test_the_dearest_input_says_what_is_set_aside(lab: Lab) -> None:
    more: JsonValue = {"about": "b", "set": {"budget": {"cost_usd": 0.9, "tokens": 90_000}}}
    inputs: list[JsonValue] = [{"about": "a"}, *({**more, "about": text} for text in "bcd")]
    id = await lab.start(
        named(), inputs=inputs, arms=ONE_DRAFT, task=SMALL, budget={"cost_usd": 0.9015}, parallel=4
    )
    status = await lab.ended(id)
    assert (status.reason, status.ended) == ("budget", 2)
    assert len(await lab.runs(id)) == 2
