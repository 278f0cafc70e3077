"""A worker that is killed while it opens a task loses nothing, and opens it once."""

import uuid

import pytest
from ground import MODEL, Ground
from provider import Play
from temporalio.client import Client
from waiting import eventually


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    ["after_open"]
    + [
        pytest.param(point, marks=pytest.mark.slow)
        for point in ("before_claim", "before_open", "after_claim")
    ],
)
async def test_a_kill_around_each_effect_of_opening_is_recovered(chaos: Ground, point: str) -> None:
    chaos.provider.plays = [Play(text="done")]
    plain = await Client.connect(chaos.site.address)
    async with chaos.process(point) as process:
        run = await plain.start_workflow(
            "AgentLoop",
            {"goal": "look", "models": {"executor": MODEL}, "learn": False},
            id=f"plain-{uuid.uuid4().hex[:8]}",
            task_queue=chaos.site.settings.task_queue,
        )
        await eventually(lambda: chaos.deaths() == 1)
        await process.start()
        result = await chaos.site.gateway.result(run.id)
        assert result.id == run.id
        await run.result()
    assert (result.outcome, result.output) == ("accepted", "done")
    await chaos.check(run.id, kills=1)
    assert len(chaos.provider.lines()) == 1
