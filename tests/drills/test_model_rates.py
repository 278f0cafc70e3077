"""A rate of a model holds over all workers, and keeps no other model waiting: real queues."""

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from agent_runs import script, task
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.composition.client_services import services
from perdure.domain.installation.model_rates import queue_of_rate
from perdure.domain.run.messages import Stop
from perdure.operations.doctor_checks import model_rates

PATTERN = "*#slow"
RATE = 2.0
RUNS = 12
# A server may hand out this many seconds of a rate at once.
BURST_S = 2.0
ANSWERS = script({"text": "done"}, exhausted="repeat_last")
LIMITED = {"PERDURE_MODEL_RATES": json.dumps({PATTERN: RATE})}


async def _model(site: Installation, label: str) -> str:
    return f"{(await site.script(ANSWERS)).partition('#')[0]}#{label}"


async def _all_have_asked(site: Installation, runs: Sequence[str]) -> bool:
    """Whether each run has a model call that waits, or has waited, for its turn."""
    histories = [await site.client.get_workflow_handle(run).fetch_history() for run in runs]
    asked = [
        any(
            event.activity_task_scheduled_event_attributes.activity_type.name == "call_model"
            for event in history.events
        )
        for history in histories
    ]
    return all(asked)


async def _calls(site: Installation, runs: Sequence[str]) -> list[tuple[datetime, str]]:
    """When the calls of runs were begun, and on which queues they waited."""
    found: list[tuple[datetime, str]] = []
    for run in runs:
        history = await site.client.get_workflow_handle(run).fetch_history()
        queues = dict[int, str]()
        for event in history.events:
            asked = event.activity_task_scheduled_event_attributes
            if asked.activity_type.name == "call_model":
                queues[event.event_id] = asked.task_queue.name
            begun = event.activity_task_started_event_attributes
            if begun.scheduled_event_id in queues:
                at = event.event_time.ToDatetime()
                found.append((at, queues[begun.scheduled_event_id]))
    return sorted(found)


@pytest.mark.long
async def test_two_workers_keep_the_rate_of_one(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    async with (
        installation(tmp_path / "home", address, heartbeat_s=10.0) as site,
        site.worker_process(**LIMITED),
        site.worker_process(**LIMITED),
    ):
        limited = await _model(site, "slow")
        runs = [await site.start(task(models={"executor": limited})) for _ in range(RUNS)]
        results = await asyncio.gather(*(site.gateway.result(run) for run in runs))
        assert {one.outcome for one in results} == {"accepted"}
        told = await _calls(site, runs)
        own = queue_of_rate(await site.parts.stores.records.installation(), PATTERN)
    assert {queue for _, queue in told} == {own}
    took = (told[-1][0] - told[0][0]).total_seconds()
    assert took >= RUNS / RATE - BURST_S - 1, "the workers called more often than the rate"


async def test_who_waits_for_a_turn_keeps_no_other_model_waiting_and_can_be_stopped(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    rates = {PATTERN: 0.001}
    async with installation(tmp_path / "home", address, model_rates=rates) as site, site.worker():
        limited = await _model(site, "slow")
        runs = [await site.start(task(models={"executor": limited})) for _ in range(4)]

        async def left() -> list[str]:
            rows = [await site.gateway.status(run) for run in runs]
            waiting = [row.id for row in rows if row.outcome is None]
            return waiting if len(waiting) == len(runs) - 1 else []

        free = await _model(site, "fast")
        other = await site.run(task(models={"executor": free}))
        assert other.outcome == "accepted"
        # One call is let through at once; the next would come in a quarter of an hour.
        await eventually(left)
        for run in await left():
            await site.gateway.verb(run, Stop(mode="now", by="test"))
        results = [await site.gateway.result(run) for run in runs]
    stopped = [one for one in results if one.outcome != "accepted"]
    assert len(stopped) == len(runs) - 1
    assert all(one.spend.model_calls == 0 for one in stopped)


@pytest.mark.parametrize(
    ("limit", "lifted"),
    [
        ({"model_rates": {PATTERN: 0.001}}, {"model_rates": {PATTERN: None}}),
        # The question whether a worker is ready waits for its turn too.
        pytest.param({"model_calls_per_second": 0.001}, {}, marks=pytest.mark.long),
    ],
    ids=["of a model", "of all models"],
)
async def test_a_limit_is_lifted_for_calls_that_wait_already(
    limit: dict[str, object],
    lifted: dict[str, object],
    server: WorkflowEnvironment,
    tmp_path: Path,
) -> None:
    address = server.client.service_client.config.target_host
    async with installation(tmp_path / "home", address) as site:
        limited = await _model(site, "slow")
        async with site.worker(**limit):
            one = task(models={"executor": limited})
            runs = await asyncio.gather(*(site.start(one) for _ in range(4)))
            await eventually(partial(_all_have_asked, site, runs))
        async with site.worker(**lifted):
            results = await asyncio.gather(*(site.gateway.result(run) for run in runs))
    assert {one.outcome for one in results} == {"accepted"}


async def test_doctor_names_a_rate_that_no_worker_serves(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    rates = {"a:*": 5, "b": None}
    async with installation(tmp_path / "home", address, model_rates=rates) as site:
        connected = partial(services, site.settings)
        alone = [check async for check in model_rates(site.settings, connected)]
        async with site.worker():
            served = [check async for check in model_rates(site.settings, connected)]
    assert [one.state for one in alone] == ["warning", "warning"]
    assert alone[0].found.startswith("a:*: 5 calls a second, but no worker fetches its calls from")
    assert [(one.state, one.found) for one in served] == [
        ("ok", "a:*: 5 calls a second"),
        ("ok", "b: no limit"),
    ]
