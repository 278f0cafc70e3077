"""What a Temporal client changes of a run by signal or update stays for a retry from the store."""

import asyncio
import sqlite3
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest
from agent_runs import script, task
from holding import HELD, Holding
from installation import Installation
from temporalio.client import Client, WorkflowHandle
from waiting import eventually

from perdure.adapters.stores.open_stores import DATABASE_FILE
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.foundation.tolerance import read, read_as
from perdure.domain.run.messages import Amend, Retry
from perdure.domain.run.status import RunStatus
from perdure.domain.specs import RUN_SPEC, Spec

SLOW = {"text": "Done.", "delay_s": HELD}
CHANGES = {"budget": {"cost_usd": 7, "wall_time": 9_000}, "max_iterations": 9, "goal": "do that"}


async def _plain(site: Installation, run: str) -> WorkflowHandle[object, object]:
    return (await Client.connect(site.address)).get_workflow_handle(run)


async def _spec(site: Installation, run: str) -> Spec:
    row = await site.parts.stores.records.run(run)
    assert row is not None
    assert row.spec is not None
    return read_as(RUN_SPEC, await site.parts.stores.blobs.get(row.spec))


async def _stored(site: Installation, run: str) -> RunStatus:
    row = await site.parts.stores.records.run(run)
    assert row is not None
    assert row.status is not None
    return read(RunStatus, row.status)


@pytest.mark.parametrize("way", ["signal", "update"])
async def test_a_retry_of_a_lost_run_keeps_what_a_temporal_client_changed(
    site: Installation, holding: Holding, way: str
) -> None:
    run = await site.start(task(), script(SLOW, {"text": "Done."}))
    await holding.begun()
    plain = await _plain(site, run)
    if way == "signal":
        await plain.signal("amend", CHANGES)
    else:
        await plain.execute_update("amend", CHANGES)
    await eventually(lambda: _kept(site, run))
    look = await site.gateway._parts.server.look(run)
    assert look is not None
    await site.gateway._parts.server.delete(run, look.execution)
    await eventually(lambda: _gone(site, run))
    await site.gateway.verb(run, Retry(by="t"))
    limits = (await site.status(run)).budget.limits
    assert (limits.cost_usd, limits.wall_time) == (Decimal(7), 9_000)
    spec = await _spec(site, run)
    assert isinstance(spec, AgentSpec)
    assert (spec.goal, spec.agent.max_iterations) == ("do that", 9)
    holding.release()
    assert (await site.gateway.result(run)).outcome == "accepted"


async def _kept(site: Installation, run: str) -> bool:
    stored = (await _stored(site, run)).budget.limits
    return stored.cost_usd == Decimal(7) and (await _spec(site, run)).goal == "do that"


async def _gone(site: Installation, run: str) -> bool:
    return await site.gateway._parts.server.look(run) is None


async def test_an_update_is_answered_when_the_store_has_the_change(
    site: Installation, holding: Holding
) -> None:
    run = await site.start(task(), script(SLOW))
    await holding.begun()
    plain = await _plain(site, run)
    store = sqlite3.connect(site.home / DATABASE_FILE, isolation_level=None)
    with closing(store):
        store.execute("BEGIN IMMEDIATE")
        answer = asyncio.ensure_future(plain.execute_update("amend", CHANGES))
        await eventually(lambda: _taken(site, run))
        assert not answer.done()
        store.execute("ROLLBACK")
    await answer
    assert await _kept(site, run)
    holding.release()
    await site.gateway.result(run)


async def _taken(site: Installation, run: str) -> bool:
    return (await site.status(run)).budget.limits.cost_usd == Decimal(7)


async def test_a_slow_client_overwrites_no_later_change(
    site: Installation, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await site.start(task(), script(SLOW))
    await holding.begun()
    records, later, waited = site.parts.stores.records, asyncio.Event(), []
    write = records.edit_run

    async def first_slowly(run: str, **values: Any) -> None:
        if not waited:
            waited.append(run)
            await later.wait()
        await write(run, **values)

    monkeypatch.setattr(records, "edit_run", first_slowly)
    first = Amend(budget={"cost_usd": 3}, goal="first", by="ann")
    slow = asyncio.ensure_future(site.gateway.verb(run, first))
    await eventually(lambda: _goal_is(site, run, "first"))
    await site.gateway.verb(run, Amend(budget={"cost_usd": 7}, goal="do that", by="bob"))
    assert await _kept(site, run)
    later.set()
    await slow
    assert await _kept(site, run)
    holding.release()
    await site.gateway.result(run)
    assert await _kept(site, run)


async def _goal_is(site: Installation, run: str, goal: str) -> bool:
    return (await _spec(site, run)).goal == goal


async def test_a_run_ends_with_what_was_changed_last(site: Installation, holding: Holding) -> None:
    run = await site.start(task(), script(SLOW))
    await holding.begun()
    plain = await _plain(site, run)
    for cost in range(3, 12):
        await plain.signal("amend", {"budget": {"cost_usd": cost}, "goal": f"goal {cost}"})
    holding.release()
    await site.gateway.result(run)
    assert (await _stored(site, run)).budget.limits.cost_usd == Decimal(11)
    assert (await _spec(site, run)).goal == "goal 11"
    names = [
        event["activityTaskScheduledEventAttributes"]["activityType"]["name"]  # type: ignore[index]
        for event in await site.history(run)
        if "activityTaskScheduledEventAttributes" in event
    ]
    assert 1 <= names.count("keep_terms") <= 9
