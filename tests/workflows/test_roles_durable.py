"""Role loops that lose their worker, are started twice, compete for a provider, or roll over."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from installation import Installation, dev_server, installation
from invariants import executions
from stages import open_gate
from teams import APPROVED, PAIR, asks, says, script, stage, task, team
from temporalio.testing import TimeSkipper
from waiting import eventually

from perdure.domain.llm.usage import Usage
from perdure.domain.run.spec import Timing
from perdure.domain.specs import RUN_SPEC

HOUR_S = 3_600.0


@pytest.mark.long
async def test_a_worker_lost_in_a_stage_costs_one_lost_attempt(bare: Installation) -> None:
    replies = [says("coder", "draft"), says("reviewer", APPROVED, delay_s=8)]
    async with bare.worker_process() as worker:
        run = await bare.start(task(team(*PAIR)), script(replies))

        async def reviewing() -> bool:
            rows = await bare.parts.stores.journal.rows(run)
            begun = [row.role for row in rows] == ["coder", "reviewer"]
            return begun and await bare.replies_taken(run) == 2

        await eventually(reviewing)
        await worker.kill()
        await worker.start()
        result = await bare.gateway.result(run)
    assert (result.outcome, result.reason) == ("accepted", "approved")
    (record,) = await bare.records(run)
    assert [(one.name, one.status, one.attempt) for one in record.stages] == [
        ("coder", "completed", 1),
        ("reviewer", "completed", 1),
    ]
    rows = await bare.parts.stores.journal.rows(run)
    assert Counter(row.state for row in rows) == {"answered": 2, "lost": 1}
    confirmed = sum((row.usage for row in rows if row.state == "answered"), Usage())
    assert result.spend.usage == confirmed
    assert result.spend.model_calls == len(rows)


async def test_two_starts_of_one_id_are_one_run(site: Installation) -> None:
    replies = script([says("coder", "draft"), says("reviewer", APPROVED)])
    models = {"executor": await site.script(replies)}
    spec = RUN_SPEC.validate_python({**task(team(*PAIR)), "models": models})
    started = await asyncio.gather(
        *(site.gateway.start(spec, idempotency_key="the same") for _ in range(20))
    )
    assert len(set(started)) == 1
    result = await site.gateway.result(started[0])
    assert (result.outcome, result.spend.model_calls) == ("accepted", 2)


@pytest.mark.slow
async def test_a_provider_that_limits_rates_starves_no_loop(site: Installation) -> None:
    limited = {"error": {"status": 429, "retry_after": 0.2}}
    replies = [
        {**limited, "when": {"role": "coder"}},
        says("coder", "draft"),
        {**limited, "when": {"role": "reviewer"}},
        says("reviewer", APPROVED),
    ]
    runs = [
        await site.start(task(team(*PAIR), goal=f"Task {number}"), script(replies))
        for number in range(20)
    ]
    results = await asyncio.gather(*(site.gateway.result(run) for run in runs))
    assert {result.reason for result in results} == {"approved"}
    calls = [len(await site.parts.stores.journal.rows(run)) for run in runs]
    assert set(calls) == {4}


@pytest.mark.slow
async def test_a_time_limit_counts_from_the_start_over_rolls_and_while_a_person_is_asked(
    tmp_path: Path,
) -> None:
    replies = [
        *(asks("coder", "probe.echo", {"text": f"t{number}"}) for number in range(4)),
        says("coder", "NEEDS_CONTEXT: Which cache?"),
    ]
    condition = {"type": "time_bound", "seconds": HOUR_S}
    pair = team(stage("coder", access="readonly"), stage("reviewer"), condition=condition)
    option = ("--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true")
    async with (
        dev_server(*option) as server,
        installation(
            tmp_path / "home",
            server.client.service_client.config.target_host,
            timing=Timing(roll_events=12),
        ) as made,
        made.worker(plugins=("probe_tools",)),
    ):
        run = await made.start(task(pair), script(replies))
        await open_gate(made, run)
        assert len(await executions(made, run)) > 2
        skipper = TimeSkipper(made.client)
        await skipper.fast_forward(made.handle(run), HOUR_S / 2)
        assert (await made.status(run)).lifecycle == "waiting"
        await skipper.fast_forward(made.handle(run), HOUR_S / 2)
        result = await made.gateway.result(run)
    assert (result.outcome, result.reason) == ("deadline", "wall_time")
    assert result.spend.wall_time_s >= HOUR_S
    assert [one.status for one in result.iterations[0].stages] == ["cut"]
