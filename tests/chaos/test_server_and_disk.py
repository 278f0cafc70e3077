"""R06, R07, R08, R10, R12, R13, R15, R42: server and disk fail, people intervene, runs go on."""

import asyncio
import json
import random
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from full_store import full_store
from ground import Ground, ground
from provider import Play
from server_process import server_process
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.worker import Worker
from waiting import eventually

from perdure.activities.worker_probe import Ready
from perdure.domain.foundation.errors import StoreError
from perdure.domain.foundation.names import loops_queue, models_queue, tools_queue
from perdure.domain.run.messages import AddInput, Pause, Resume

LOOK = ("effect.again", {"word": "a"})


@pytest.mark.long
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.slow)])
async def test_r06_the_server_is_killed_during_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    turns = 4 * kills
    async with (
        server_process(tmp_path) as server,
        ground(tmp_path / "g", server.address) as made,
        made.site.worker(),
    ):
        made.provider.plays = [Play(text="", calls=[LOOK])] * turns + [Play(text="done")]
        run = await made.start(tools={"repeat_exempt": ["effect.again"]})
        chance = random.Random(kills)
        for number in range(kills):
            await made.billed(1 + 3 * number)
            await asyncio.sleep(chance.random() / 2)
            await server.kill()
            await server.start()
        result = await made.check(run, failed_tasks=2 * kills, kills=kills)
    assert result.output == "done"
    assert len(made.provider.lines()) == turns + 1, "no call was made twice"


@pytest.mark.long
async def test_r07_what_was_acknowledged_outlives_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause and an input that were answered hold after the server died and came back."""
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    async with (
        server_process(tmp_path) as server,
        ground(tmp_path / "g", server.address) as made,
        made.site.worker(),
    ):
        made.provider.plays = [Play(text="", calls=[LOOK], gate="later"), Play(text="done")]
        run = await made.start()
        await made.billed(1)
        await made.verb(run, Pause())
        await made.verb(run, AddInput(text="and be brief"))
        await server.kill()
        made.provider.open("later")
        await server.start()
        await eventually(lambda: _at_rest(made, run))
        assert len(made.provider.lines()) == 1, "it is still paused"
        await made.verb(run, Resume())
        result = await made.check(run, failed_tasks=2, kills=1)
    assert result.output == "done"
    assert str(made.provider.bodies[-1]["messages"]).count("and be brief") == 1
    assert len(made.provider.lines()) == 2


@pytest.mark.long
async def test_r08_a_locked_store_is_waited_out_with_the_paid_reply_in_hand(served: Ground) -> None:
    served.provider.plays = [Play(text="paid for", gate="later")]
    run = await served.start()
    await served.billed(1)
    holder = sqlite3.connect(served.site.settings.home / "perdure.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    served.provider.open("later")
    await asyncio.sleep(3.0)  # longer than a heartbeat timeout: the store is slow, not the worker
    holder.execute("ROLLBACK")
    holder.close()
    result = await served.check(run)
    assert result.output == "paid for"
    assert len(served.provider.lines()) == 1
    assert result.spend.unconfirmed.get("tokens", 0) == 0


@pytest.mark.long
async def test_r08_a_full_disk_is_waited_out_with_the_paid_reply_in_hand(chaos: Ground) -> None:
    """The database may not grow while the reply is in hand; then it may again."""
    chaos.provider.plays = [Play(text="x" * 400_000, gate="later")]
    limit = chaos.site.settings.home / "full"
    environment = {**chaos.environment(), "PERDURE_PLUGINS": "ledger_tools,full_disk"}
    async with chaos.site.worker_process(**environment, FULL_DISK=str(limit)):
        run = await chaos.start()
        await chaos.billed(1)
        limit.touch()
        chaos.provider.open("later")
        await asyncio.sleep(2.5)
        assert (await chaos.site.status(run)).lifecycle == "running"
        limit.unlink()
        result = await chaos.check(run)
    assert result.output == "x" * 400_000
    assert len(chaos.provider.lines()) == 1


@pytest.mark.long
async def test_r08_a_full_store_is_named_and_waited_out(served: Ground) -> None:
    """SQLite's own limit of pages: a start is refused in words, a run in progress waits."""
    served.provider.plays = [Play(text="y" * 400_000, gate="later")]
    with full_store() as store:
        run = await served.start()
        await served.billed(1)
        store.full = True
        with pytest.raises(StoreError, match="is full"):
            await served.start(goal="look " * 10_000)
        served.provider.open("later")
        await eventually(lambda: _waits_because(served, run, "is full"))
        store.full = False
        result = await served.check(run)
    assert result.output == "y" * 400_000
    assert len(served.provider.lines()) == 1, "the refused start cost nothing"


async def _waits_because(ground: Ground, run: str, why: str) -> bool:
    described = await ground.site.handle(run).describe()
    pending = described.raw_description.pending_activities
    # The server cuts long failures and then puts a message of its own around them.
    return any(why in str(one.last_failure) for one in pending)


async def test_r10_a_pause_before_the_first_task_is_honoured(chaos: Ground) -> None:
    async with answering(chaos):
        run = await chaos.start()
    await chaos.site.handle(run).signal("pause", Pause())
    async with chaos.site.worker():
        await eventually(lambda: _opened_and_at_rest(chaos, run))
        await chaos.verb(run, AddInput(text="one more task of the workflow"))
        assert "call_model" not in str(await chaos.site.history(run)), (
            "no call was as much as planned"
        )
        assert chaos.provider.lines() == []
        await chaos.verb(run, Resume())
        await chaos.check(run)


@asynccontextmanager
async def answering(ground: Ground) -> AsyncGenerator[None]:
    """Workers that answer the probe of a start, and do nothing else."""
    installation = await ground.site.parts.stores.records.installation()
    queues = (
        loops_queue(installation),
        models_queue(installation),
        tools_queue(installation, None),
    )
    ready = Ready(version="none", workspace=None).ready
    async with AsyncExitStack() as workers:
        for queue in queues:
            await workers.enter_async_context(
                Worker(ground.site.client, task_queue=queue, activities=[ready])
            )
        yield


@pytest.mark.long
async def test_r12_a_run_without_worker_still_has_a_status(chaos: Ground) -> None:
    chaos.provider.plays = [Play(gate="later")]
    async with chaos.site.worker():
        run = await chaos.start()
        await chaos.billed(1)
    status = await asyncio.wait_for(chaos.site.status(run), 30)
    assert (status.lifecycle, status.source) == ("running", "store")
    chaos.provider.open("later")
    async with chaos.site.worker():
        await chaos.check(run, kills=1)


@pytest.mark.long
async def test_r13_pause_in_a_tool_batch_starts_no_further_wave(served: Ground) -> None:
    slow = ("effect.again", {"word": "a", "seconds": 30})
    other = [("effect.again", {"word": f"{number}"}) for number in range(17)]
    served.provider.plays = [Play(text="", calls=[slow, *other]), Play(text="done")]
    run = await served.start(tools={"repeat_exempt": ["effect.again"]})
    await served.effected(16)
    await served.verb(run, Pause())
    served.go()
    await eventually(lambda: _at_rest(served, run))
    await asyncio.sleep(1.0)
    assert len(served.effects.read_text().splitlines()) == 16, "the second wave is held"
    await served.verb(run, Resume())
    result = await served.check(run)
    assert len(served.effects.read_text().splitlines()) == 18
    assert result.spend.tool_calls == 18


async def _at_rest(ground: Ground, run: str) -> bool:
    status = await ground.site.status(run)
    return status.lifecycle == "paused" and status.step is None


async def _opened_and_at_rest(ground: Ground, run: str) -> bool:
    """Between two steps of its opening a run looks as if it rested."""
    raw = (await ground.site.handle(run).describe()).raw_description
    if raw.pending_activities or raw.HasField("pending_workflow_task"):
        return False
    return "open_run" in str(await ground.site.history(run)) and await _at_rest(ground, run)


@pytest.mark.long
async def test_r15_cancelling_ends_the_tools_process(served: Ground) -> None:
    served.provider.plays = [Play(text="", calls=[("effect.process", {})]), Play(text="done")]
    run = await served.start()
    await served.effected(1)
    pid = json.loads(served.effects.read_text().splitlines()[0])["pid"]
    await served.site.handle(run).cancel()
    await eventually(lambda: not Path(f"/proc/{pid}").exists())
    result = await served.check(run)
    assert (result.outcome, result.reason) == ("stopped", "stopped")
    assert result.spend.tool_calls == 1


@pytest.mark.long
async def test_r42_a_reset_counts_all_lives_and_pays_only_for_what_it_repeats(
    served: Ground,
) -> None:
    served.provider.plays = [Play(text="", calls=[LOOK]), Play(text="done")]
    run = await served.start()
    first = await served.check(run)
    events = await served.site.handle(run).fetch_history()
    calls = [
        event.activity_task_scheduled_event_attributes.workflow_task_completed_event_id
        for event in events.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == "call_model"
    ]
    client = served.site.client
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run, run_id=events.run_id),
            reason="again from the second call",
            workflow_task_finish_event_id=calls[1],
            request_id="reset",
        )
    )
    await served.site.handle(run).result()
    second = await served.site.gateway.result(run)
    assert len(served.provider.lines()) == 3, "the first call is reused, the second is made again"
    assert (first.spend.model_calls, second.spend.model_calls) == (2, 3)
