"""Whether people are told of a gate is the workers' to know, who send the notices."""

import shlex
from pathlib import Path

import agent_runs
import pytest
from holding import HELD, Holding
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.messages import Answer, Stop
from tests.adapters.test_notifiers import Receiver, receiver

__all__ = ["receiver"]
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
        steps = await _steps(site, run)
    assert ("notify" in steps) == worker


async def test_who_answered_is_not_asked_again(
    server: WorkflowEnvironment, tmp_path: Path, receiver: Receiver
) -> None:
    """The webhook is away when the gate opens, and back when it has been answered."""
    receiver.status = 503
    address = server.client.service_client.config.target_host
    asks = agent_runs.script(ASKS, ASKS, {"text": "done"})
    async with installation(tmp_path, address) as site, site.worker(notify_webhook=receiver.url):
        notices = site.parts.stores.notices()

        async def tried(gate: str) -> bool:
            return any(one.gate == gate and one.problem for one in await notices.notices())

        run = await site.start(agent_runs.task(), asks)
        await eventually(lambda: tried("g1"))
        await site.gateway.verb(run, Answer(gate="g1", choice="yes"))
        await eventually(lambda: tried("g2"))
        receiver.status = 200
        for one in await notices.notices():
            await notices.settle(one.model_copy(update={"state": "waiting", "due_at": one.made_at}))

        async def settled() -> bool:
            found = {one.gate: one.state for one in await notices.notices()}
            return found == {"g1": "dropped", "g2": "delivered"}

        await eventually(settled)
        await site.gateway.verb(run, Answer(gate="g2", choice="yes"))
        await site.gateway.result(run)


async def test_nobody_is_called_to_a_question_of_a_run_that_must_end(
    server: WorkflowEnvironment, tmp_path: Path, holding: Holding
) -> None:
    """The model asks in the very reply during which the run is stopped."""
    address = server.client.service_client.config.target_host
    script = agent_runs.script({**ASKS, "delay_s": HELD}, {"text": "done"})
    async with installation(tmp_path, address) as site, site.worker(notify_command="cat"):
        run = await site.start(agent_runs.task(), script)
        await holding.begun()
        await site.gateway.verb(run, Stop())
        holding.release()
        result = await site.gateway.result(run)
        assert (result.outcome, result.output) == ("stopped", "done")
        assert "gate_opened" not in await agent_runs.event_types(site, run)
        assert "notify" not in await _steps(site, run)


async def _steps(site: Installation, run: str) -> list[str]:
    return [
        event["activityTaskScheduledEventAttributes"]["activityType"]["name"]  # type: ignore[index]
        for event in await site.history(run)
        if "activityTaskScheduledEventAttributes" in event
    ]


async def _asks(gateway, run: str) -> bool:
    return bool((await gateway.status(run)).gates)
