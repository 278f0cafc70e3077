"""A tenant with many runs does not keep another one waiting: a real queue, few workers."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from ground import Ground, ground
from installation import dev_server
from provider import Play
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

SLOTS = 3
FLOOD = 30


@pytest.fixture(scope="module")
async def fair() -> AsyncIterator[WorkflowEnvironment]:
    """A server that goes by fairness keys, as the embedded one and the compose file do."""
    async with dev_server("--dynamic-config-value", "matching.enableFairness=true") as environment:
        yield environment


def _held(body: dict[str, object]) -> Sequence[Play]:
    """One answer for each run; those of the flood wait for the test."""
    return [Play(text="done", gate="held" if "flood" in json.dumps(body) else None)]


async def _waits_for_a_model(drill: Ground, run: str) -> bool:
    """Whether a run's model call lies in the queue."""
    described = await drill.site.client.get_workflow_handle(run).describe()
    return any(
        step.activity_type.name == "call_model"
        for step in described.raw_description.pending_activities
    )


def _place(drill: Ground, goal: str) -> int:
    """As which request the provider got the call of a run."""
    told = [json.dumps(body["messages"]) for body in drill.provider.bodies]
    return next(place for place, one in enumerate(told) if goal in one)


@pytest.mark.long
@pytest.mark.parametrize(
    ("second", "third"),
    [
        ({"metadata": {"tenant": "many"}}, {"metadata": {"tenant": "small"}}),
        ({"metadata": {"tenant": "many"}}, {"metadata": {"tenant": "many"}, "priority": 1}),
    ],
    ids=["another tenant", "a higher priority"],
)
async def test_who_came_last_is_not_served_last(
    fair: WorkflowEnvironment, tmp_path: Path, second: dict[str, object], third: dict[str, object]
) -> None:
    address = fair.client.service_client.config.target_host
    async with ground(tmp_path, address, max_concurrent_activities=SLOTS) as drill:
        drill.provider.choose = _held
        async with drill.site.worker():
            many = {"metadata": {"tenant": "many"}}
            runs = [await drill.start(goal=f"flood {n}", **many) for n in range(FLOOD)]
            runs += [await drill.start(goal="came second", **second)]
            runs += [await drill.start(goal="came third", **third)]
            for run in runs:
                await eventually(lambda run=run: _waits_for_a_model(drill, run))
            await drill.billed(SLOTS)
            drill.provider.open("held")
            results = [await drill.site.gateway.result(run) for run in runs]
    assert {one.output for one in results} == {"done"}
    # Some tasks are in a worker's hands before the last ones come.
    assert _place(drill, "came third") < FLOOD / 2
    assert _place(drill, "came third") < _place(drill, "came second")
