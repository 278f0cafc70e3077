"""Whether people are told of a gate is the workers' to know, who send the notices."""

import shlex
from pathlib import Path

import agent_runs
import pytest
from installation import installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.messages import Answer

ASKS = agent_runs.calls(agent_runs.call("human.ask", question="Tea?", choices=["yes", "no"]))


@pytest.mark.parametrize(
    ("door", "worker"),
    [
        pytest.param(False, True, id="the workers' channel alone"),
        pytest.param(True, False, id="the door's channel alone"),
    ],
)
async def test_the_workers_know_whether_people_are_told(
    server: WorkflowEnvironment, tmp_path: Path, door: bool, worker: bool
) -> None:
    came = tmp_path / "notice.json"
    command = {"notify_command": f"tee {shlex.quote(str(came))}"}
    address = server.client.service_client.config.target_host
    async with installation(
        tmp_path / "home", address, notify_command=command["notify_command"] if door else None
    ) as site:
        told = command if worker else {"notify_command": None}
        async with site.worker(**told):
            run = await site.start(agent_runs.task(), agent_runs.script(ASKS, {"text": "done"}))
            await eventually(lambda: _asks(site.gateway, run))
            if worker:
                await eventually(came.exists)
            (open_gate,) = (await site.status(run)).gates
            await site.gateway.verb(run, Answer(gate=open_gate.name, choice="yes"))
            await site.gateway.result(run)
        steps = [
            event["activityTaskScheduledEventAttributes"]["activityType"]["name"]  # type: ignore[index]
            for event in await site.history(run)
            if "activityTaskScheduledEventAttributes" in event
        ]
    assert ("notify" in steps) == worker


async def _asks(gateway, run: str) -> bool:
    return bool((await gateway.status(run)).gates)
