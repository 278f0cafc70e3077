"""R51: the server's answer to a completed workflow task is lost on its way to the worker."""

from pathlib import Path

import pytest
from dropping import DroppingProxy
from ground import HEARTBEAT_S, Ground, ground
from invariants import executions
from provider import Play
from temporalio.testing import WorkflowEnvironment

from perdure.domain.run.spec import Timing

LOOK = ("effect.again", {"word": "a"})
# Bounded by its heartbeat, or where a step has none by its time: both are short here.
BOUNDED = Timing(heartbeat=HEARTBEAT_S, stop_grace=2.0, store=5.0)
# Steps on the queue of the workflows themselves are handed over with the answer that is lost.
EAGER = ("open_run", "finish")


@pytest.mark.slow
@pytest.mark.parametrize("activity", ["open_run", "call_model", "call_tool", "finish"])
async def test_r51_a_lost_answer_is_recovered(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, activity: str
) -> None:
    """The server holds the step for scheduled or started; it is done once all the same."""
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    address = server.client.service_client.config.target_host
    host, _, port = address.partition(":")
    proxy = DroppingProxy(host, int(port))
    plays = (Play(text="", calls=[LOOK]), Play(text="done"))
    async with (
        ground(tmp_path, address, timing=BOUNDED, plays=plays) as made,
        proxy.serving(),
        made.site.worker_process(**made.environment(), TEMPORAL_ADDRESS=proxy.address),
    ):
        proxy.arm(_command(activity))
        run = await made.start()
        result = await made.check(run, kills=1)
    assert proxy.dropped == 1
    if activity in EAGER:
        assert await _attempts(made, run, activity) > 1, "the server took it for started"
    assert result.output == "done"
    assert len(made.provider.lines()) == 2, "each call was made and counted once"
    assert len(made.effects.read_text().splitlines()) == 1


async def _attempts(made: Ground, run: str, activity: str) -> int:
    """How often a step was started."""
    (history,) = await executions(made.site, run)
    scheduled = next(
        event.event_id
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == activity
    )
    return max(
        event.activity_task_started_event_attributes.attempt
        for event in history.events
        if event.activity_task_started_event_attributes.scheduled_event_id == scheduled
    )


def _command(activity: str) -> bytes:
    """The activity type as it stands in the command that schedules it."""
    return bytes([0x0A, len(activity)]) + activity.encode()
