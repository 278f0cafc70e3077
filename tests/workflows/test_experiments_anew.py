"""An experiment that somebody starts again, or resets, spends nothing that it may not spend."""

import uuid
from datetime import timedelta
from decimal import Decimal

import pytest
from experiment_lab import Lab
from installation import Installation
from started_again import reset_to, start_like
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from waiting import eventually

from perdure.domain.experiments.plan import Position, trial_run_id

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
        # It has noted its end; the server refuses another of its id until that end arrives there.
        await client.get_workflow_handle(id).result()
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


async def test_a_run_that_is_open_elsewhere_is_looked_at_ever_more_rarely(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, longest = timedelta(milliseconds=40), timedelta(milliseconds=200)
    monkeypatch.setattr("perdure.workflows.experiment_runs.LOOK_AGAIN", first)
    monkeypatch.setattr("perdure.workflows.experiment_runs.LONGEST_PAUSE", longest)
    id, run = await _with_a_run_elsewhere(lab)
    await eventually(lambda: _pauses(lab, id, at_least=5))
    assert await _pauses(lab, id, at_least=5) == [40, 80, 160, 200, 200]
    await lab.site.handle(run).terminate()
    assert (await lab.ended(id)).reason == "completed"
    assert (await lab.trials(id))[0].tries[0].run == run


async def _with_a_run_elsewhere(lab: Lab) -> tuple[str, str]:
    """An experiment whose only run is open already, on a queue without a worker."""
    id = f"exp-open-{uuid.uuid4().hex[:6]}"
    run = trial_run_id(id, Position(arm="a", entry=0, repeat=0), 0)
    await lab.site.client.start_workflow("Nobodys", id=run, task_queue="nobodys")
    return await lab.start(id, "a", arms={"a": {}}), run


async def test_stop_now_does_not_wait_for_a_run_that_is_open_elsewhere(lab: Lab) -> None:
    id, run = await _with_a_run_elsewhere(lab)
    await eventually(lambda: _pauses(lab, id, at_least=1))
    await lab.experiments.stop(id, now=True)
    assert (await lab.ended(id)).reason == "stopped"
    assert not await lab.trials(id)
    await lab.site.handle(run).terminate()
    await lab.experiments.resume(id)
    assert (await lab.ended(id)).reason == "completed"


async def _pauses(lab: Lab, id: str, *, at_least: int) -> list[int]:
    """How long it waited before each look, in milliseconds."""
    history = await lab.site.handle(id).fetch_history()
    timers = [event.timer_started_event_attributes for event in history.events]
    pauses = [one.start_to_fire_timeout.ToMilliseconds() for one in timers if one.timer_id]
    return pauses[:at_least] if len(pauses) >= at_least else []
