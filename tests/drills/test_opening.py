"""While a task that a plain client sent is being opened: the store goes, people cancel, gc runs."""

import asyncio
import sqlite3
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from installation import Installation
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from waiting import eventually

from perdure.domain.run.task_start import OpenTaskReport, OpenTaskRequest
from perdure.gateway.open_task import TaskOpening
from perdure.operations.gc import collect

AWAY_S = 25.0  # longer than one attempt of the step
LONG = timedelta(days=60)


class Held:
    """Holds runs back that are opened, their rows and contents stored, until `release`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.opened: list[str] = []
        self.released = asyncio.Event()
        real = TaskOpening.open

        async def held(opening: TaskOpening, run: str, asked: OpenTaskRequest) -> OpenTaskReport:
            report = await real(opening, run, asked)
            self.opened.append(run)
            await self.released.wait()
            return report

        patch.setattr(TaskOpening, "open", held)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(monkeypatch)


async def start(site: Installation, model: str = "") -> WorkflowHandle[object, object]:
    """By a client that knows nothing of Perdure."""
    task = {
        "goal": "Name a fruit.",
        "context": {"fruits": "apple, pear, plum. " * 5_000},  # so much that it is kept as a blob
        "models": {"executor": model or await answering(site)},
    }
    sealed = site.settings.encryption_key is not None  # then the client has to seal it
    client = site.client if sealed else await Client.connect(site.address)
    return await client.start_workflow(
        "AgentLoop", task, id=f"plain-{uuid.uuid4().hex[:8]}", task_queue=site.settings.task_queue
    )


async def answering(site: Installation) -> str:
    return await site.script({"replies": [{"text": "An apple."}]})


async def ended(run: WorkflowHandle[object, object]) -> dict[str, object]:
    result = await run.result()
    assert isinstance(result, dict)
    return result


@pytest.mark.long
async def test_a_task_waits_for_a_store_that_is_away(bare: Installation) -> None:
    model = await answering(bare)
    holder = sqlite3.connect(bare.settings.home / "perdure.sqlite", isolation_level=None)
    async with bare.worker():
        holder.execute("BEGIN IMMEDIATE")
        try:
            run = await start(bare, model)
            await asyncio.sleep(AWAY_S)
            described = await run.describe()
            assert described.status is not None and described.status.name == "RUNNING"
        finally:
            holder.execute("ROLLBACK")
            holder.close()
        result = await ended(run)
    assert (result["outcome"], result["output"]) == ("accepted", "An apple.")
    row = await bare.parts.stores.records.run(run.id)
    assert row is not None and row.outcome == "accepted"


@pytest.mark.long
async def test_a_collection_while_a_task_is_opened_takes_nothing_of_it(
    kept: Installation, held: Held
) -> None:
    parts = kept.parts
    async with kept.worker():
        run = await start(kept)
        await eventually(lambda: held.opened)
        stray = await parts.stores.blobs.put(uuid.uuid4().bytes)
        now = datetime.now(UTC) + LONG
        for _ in range(2):
            await collect(parts.stores, kept.gateway, parts.workspaces, now=now, dry_run=False)
        held.released.set()
        result = await ended(run)
    assert (result["outcome"], result["output"]) == ("accepted", "An apple.")
    now = datetime.now(UTC) + LONG
    await collect(parts.stores, kept.gateway, parts.workspaces, now=now, dry_run=False)
    assert not await parts.stores.blobs.exists(stray), "collections do take what nobody names"


@pytest.mark.parametrize("what", ["cancel", "stop"])
async def test_who_ends_a_run_while_it_is_opened_is_heard(
    what: str, bare: Installation, held: Held
) -> None:
    async with bare.worker():
        run = await start(bare)
        await eventually(lambda: held.opened)
        if what == "cancel":
            await run.cancel()
        else:
            await run.signal("stop", {"mode": "now"})
        held.released.set()
        try:
            result = await ended(run)
        except WorkflowFailureError:
            result = None
        row = await bare.parts.stores.records.run(run.id)
    assert row is not None and row.outcome == "stopped"
    assert result is None or result["outcome"] == "stopped"
    assert await bare.parts.stores.journal.rows(run.id) == []
