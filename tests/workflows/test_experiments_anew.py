"""An experiment that somebody starts again, or resets, spends nothing that it may not spend."""

import uuid
from decimal import Decimal

import pytest
from experiment_lab import Lab
from installation import Installation
from started_again import reset_to, start_like
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

SPENT = 4 * Decimal("0.0015")


@pytest.fixture
def lab(site: Installation) -> Lab:
    return Lab(site)


async def _out_of_budget(lab: Lab) -> str:
    """Each run may spend 20 cents and spends 0.15: of 20.5 cents four begin, one after another."""
    id = await lab.start(
        f"exp-anew-{uuid.uuid4().hex[:6]}",
        *"abcdefghij",
        arms={"single": {"refine.max_iterations": 1}},
        task={"budget": {"cost_usd": 0.2, "tokens": 20_000}},
        budget={"cost_usd": 0.205},
        parallel=8,
    )
    status = await lab.ended(id)
    assert (status.reason, status.spent_usd, len(await lab.runs(id))) == ("budget", SPENT, 4)
    return id


async def _begins_again(lab: Lab, id: str, how: str) -> None:
    client = lab.site.client
    if how == "copied":
        await start_like(client, id, name=id)
    else:
        described = await client.get_workflow_handle(id).describe()
        await reset_to(client, id, described.run_id or "", task=0)


@pytest.mark.long
@pytest.mark.parametrize("how", ["copied", "reset"])
async def test_one_that_begins_again_knows_what_was_spent(lab: Lab, how: str) -> None:
    id = await _out_of_budget(lab)
    await _begins_again(lab, id, how)
    report = await lab.site.client.get_workflow_handle(id).result()
    assert isinstance(report, dict)
    assert (report["reason"], Decimal(report["spent_usd"])) == ("budget", SPENT)
    status = await lab.experiments.status(id)
    assert (status.open, status.reason, status.spent_usd) == (False, "budget", SPENT)
    assert len(await lab.runs(id)) == 4


async def test_the_input_of_another_experiment_starts_nothing(lab: Lab) -> None:
    id = await lab.start(f"exp-other-{uuid.uuid4().hex[:6]}", "a", arms={"a": {}})
    await lab.ended(id)
    runs = await lab.runs(id)
    await start_like(lab.site.client, id, name=f"{id}-2")
    with pytest.raises(WorkflowFailureError) as caught:
        await lab.site.client.get_workflow_handle(f"{id}-2").result()
    assert isinstance(caught.value.cause, ApplicationError)
    assert f"it is the input of {id}" in caught.value.cause.message
    assert await lab.runs(id) == runs
