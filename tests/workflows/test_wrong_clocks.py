"""Starts, forks and retries from a host whose clock is hours from that of the server."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from agent_runs import echo, script, task
from installation import installation
from refining import drafts, spec
from temporalio.testing import WorkflowEnvironment

from perdure.domain.run.messages import Retry

LIMIT_S = 900.0
BROKEN = {"error": {"status": 401, "message": "no such key"}}
wrong = pytest.mark.parametrize("hours", [-2, 2], ids=["behind", "ahead"])


@wrong
@pytest.mark.parametrize("early", [True, False], ids=["before an iteration", "after one"])
async def test_the_time_of_a_run_goes_by_the_server(
    server: WorkflowEnvironment, tmp_path: Path, hours: int, early: bool
) -> None:
    address = server.client.service_client.config.target_host

    def now() -> datetime:
        return datetime.now(UTC) + timedelta(hours=hours)

    async with installation(tmp_path, address, now=now, heartbeat_s=10.0) as site, site.worker():
        first = () if early else (echo("one"),)
        run = await site.start(
            task(budget={"wall_time": LIMIT_S}), script(*first, BROKEN, {"text": "done"})
        )
        failed = await site.gateway.result(run)
        assert failed.outcome == "failed"
        assert 0 <= (await site.status(run)).elapsed_s < LIMIT_S

        await site.gateway.verb(run, Retry(by="t", request_id="again"))
        result = await site.gateway.result(run)
        assert (result.outcome, result.output) == ("accepted", "done"), result.explanation
        assert 0 < result.spend.wall_time_s < LIMIT_S
        assert (await site.status(run)).elapsed_s == result.spend.wall_time_s


@wrong
async def test_the_time_of_a_fork_goes_by_the_server(
    server: WorkflowEnvironment, tmp_path: Path, hours: int
) -> None:
    address = server.client.service_client.config.target_host

    def now() -> datetime:
        return datetime.now(UTC) + timedelta(hours=hours)

    async with installation(tmp_path, address, now=now, heartbeat_s=10.0) as site, site.worker():
        settings = {**spec(max_iterations=2), "budget": {"wall_time": LIMIT_S}}
        run = await site.start(settings, {"replies": drafts(0.3, 0.5)})
        await site.gateway.result(run)
        told = await site.gateway.fork_spec(run, 1)
        model = await site.script({"replies": drafts(0.7)})
        models = told.models.model_copy(update={"executor": model})
        fork = await site.gateway.fork(run, 1, told.model_copy(update={"models": models}))
        result = await site.gateway.result(fork)
        assert result.outcome != "deadline", result.explanation
        assert result.iteration_count == 2
        assert 0 < result.spend.wall_time_s < LIMIT_S
