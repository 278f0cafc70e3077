import asyncio
import json

import pytest
from temporalio.client import Client

from perdure.domain.foundation.errors import (
    InvalidInput,
    NoReadyWorker,
    NotAllowed,
    ServiceUnavailable,
)
from perdure.domain.run.messages import Stop
from perdure.domain.run.status import RunStatus
from perdure.gateway import server_connection
from perdure.gateway.gateway import Gateway
from tests.gateway.conftest import MakeGateway
from tests.gateway.memory_stores import MemoryRecords
from tests.gateway.tiny import Site, spec


async def test_a_run_is_started_with_a_readable_id_row_and_labels(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(
        spec("Write a haiku about iron rust", metadata={"label": "poem"})
    )

    described = await site.client.get_workflow_handle(run).describe()
    row = await site.records.run(run)
    assert run.startswith("agent-haiku-about-iron-")
    assert described.workflow_type == "AgentLoop"
    assert (await described.memo())["goal"] == "Write a haiku about iron rust"
    assert await described.static_summary() == "agent: Write a haiku about iron rust"
    # The server adds its own (`BuildIds`) when a worker has taken the first task.
    assert {
        pair.key.name: pair.value
        for pair in described.typed_search_attributes
        if pair.key.name.startswith("Perdure")
    } == {
        "PerdureKind": "agent",
        "PerdureLifecycle": "running",
        "PerdurePhase": "starting",
        "PerdureLabel": "poem",
        "PerdureTenant": "poem",
    }
    assert row is not None
    assert (row.goal, row.label, row.ended_at) == ("Write a haiku about iron rust", "poem", None)
    assert RunStatus.model_validate_json(row.status or "").budget.limits.tokens == 5_000


@pytest.mark.long
async def test_without_a_worker_nothing_is_started_and_every_missing_queue_is_named(
    site: Site,
) -> None:
    with pytest.raises(NoReadyWorker) as caught:
        await site.gateway.start(spec(workspace="/srv/shop"))

    told = str(caught.value)
    for queue in ("loops", "models", "w0-tools"):
        assert f"perdure-{site.records.name}-{queue}" in told
    assert "for the folder /srv/shop" in told
    assert caught.value.cure == (
        "Start one with `perdure worker` on the host that has the folder /srv/shop."
    )
    assert site.records.rows == {}


@pytest.mark.long
async def test_one_missing_queue_is_enough_to_refuse(site: Site) -> None:
    await site.work(tools=False)
    with pytest.raises(NoReadyWorker, match="1 of the 3 queues"):
        await site.gateway.start(spec())

    states = await site.gateway.readiness(spec())
    assert [(state.serves, state.served) for state in states] == [
        ("loops", True),
        ("models", True),
        ("tools", False),
    ]


async def test_two_starts_of_one_id_at_once_give_one_execution(site: Site) -> None:
    await site.work()
    ids = await asyncio.gather(*(site.gateway.start(spec(), run_id="one") for _ in range(5)))

    history = json.loads(await site.gateway.history_export("one"))
    starts = [
        event
        for event in history["events"]
        if event["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED"
    ]
    assert set(ids) == {"one"}
    assert len(starts) == 1


async def test_one_idempotency_key_is_one_run_even_after_it_ended(site: Site) -> None:
    await site.work()
    first = await site.gateway.start(spec(), idempotency_key="k")
    await site.gateway.verb(first, Stop())
    await site.gateway.result(first)
    await site.rest()

    assert await site.gateway.start(spec(), idempotency_key="k") == first


async def test_a_row_whose_start_had_no_effect_is_no_run_that_has_begun(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    assert await site.gateway.has_begun(run)
    row = await site.records.run(run)
    assert row is not None
    for lost in (row, row.model_copy(update={"lifecycle": "failed", "ended_at": row.started_at})):
        await site.records.put_run(lost.model_copy(update={"id": "never-started"}))
        assert not await site.gateway.has_begun("never-started")
    assert not await site.gateway.has_begun("unknown")


async def test_the_same_id_for_another_specification_is_refused(site: Site) -> None:
    await site.work()
    await site.gateway.start(spec(), run_id="mine")

    with pytest.raises(NotAllowed, match="mine exists already, from another specification"):
        await site.gateway.start(spec("something else"), run_id="mine")


async def test_equal_goals_are_different_runs(site: Site) -> None:
    await site.work()
    assert await site.gateway.start(spec()) != await site.gateway.start(spec())


@pytest.mark.parametrize("run", ["", "a b", "a/b", "ä", "x" * 121, "'", "-x", "@last", "@x"])
async def test_an_unusable_id_is_refused(away: Gateway, run: str) -> None:
    with pytest.raises(InvalidInput, match="not usable"):
        await away.start(spec(), run_id=run)


async def test_a_server_that_is_away_is_named_with_a_cure(
    away: Gateway, records: MemoryRecords
) -> None:
    with pytest.raises(ServiceUnavailable) as caught:
        await away.start(spec())

    assert "the test server does not answer: connection refused" in str(caught.value)
    assert "perdure up" in caught.value.cure
    assert records.rows == {}


@pytest.mark.parametrize(
    ("silent", "once"), [(0.0, True), (60.0, False)], ids=["waited", "refused"]
)
async def test_a_server_that_kept_one_waiting_is_not_asked_again_at_once(
    gateway_to: MakeGateway, monkeypatch: pytest.MonkeyPatch, silent: float, once: bool
) -> None:
    asked: list[str] = []

    async def connect() -> Client:
        asked.append("connect")
        raise ServiceUnavailable("No answer in time.")

    monkeypatch.setattr(server_connection, "SILENT_S", silent)
    gateway = gateway_to(connect)
    for _ in range(2):
        with pytest.raises(ServiceUnavailable, match="No answer in time"):
            await gateway.readiness(spec())
    assert (len(asked) == 1) is once
