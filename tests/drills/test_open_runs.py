"""Starts above the limit of open runs, on a real server: refused in words, or waiting for room."""

import asyncio
import base64
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from installation import Installation, installation
from structlog.testing import capture_logs
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.errors import NoRoom
from perdure.domain.foundation.names import loops_queue
from perdure.domain.run.messages import Stop
from perdure.gateway import admission

DONE = {"replies": [{"text": "done"}]}
STAYS = {"replies": [{"text": "done", "delay_s": 600}]}


@asynccontextmanager
async def _limited(
    server: WorkflowEnvironment, folder: Path, **settings: object
) -> AsyncGenerator[tuple[Installation, str]]:
    """An installation with limits, and a run of the tenant `acme` that its server counts."""
    address = server.client.service_client.config.target_host
    async with (
        installation(folder / "home", address, timing=None, **settings) as site,
        site.worker(),
    ):
        run = await _start(site, STAYS, tenant="acme")

        async def counted() -> bool:
            found = site.client.list_workflows(f"{admission.OPEN_ROOTS} AND WorkflowId = '{run}'")
            return [one.id async for one in found] == [run]

        await eventually(counted)
        yield site, run


async def _start(site: Installation, script: Mapping[str, object], *, tenant: str) -> str:
    metadata = {"tenant": tenant}
    spec = {"kind": "agent", "goal": "look", "learn": False, "metadata": metadata}
    return await site.start(spec, script)


TENANTS = {"plain": "acme", "quoted": 'o\'brien "& sons"', "long": "ü" * 90}


@pytest.mark.parametrize("key", [None, b"k" * 32], ids=["plain", "encrypted"])
@pytest.mark.parametrize("tenant", TENANTS.values(), ids=TENANTS.keys())
async def test_of_starts_at_the_same_moment_as_many_begin_as_may_be(
    server: WorkflowEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tenant: str,
    key: bytes | None,
) -> None:
    limits: dict[str, object] = {"max_open_runs_per_tenant": 2, "above_max_open_runs": "refuse"}
    if key is not None:
        monkeypatch.setenv("KEY", base64.b64encode(key).decode())
        limits["encryption_key"] = "env:KEY"
    address = server.client.service_client.config.target_host
    async with (
        installation(tmp_path / "home", address, timing=None, **limits) as site,
        site.worker(),
    ):
        ends = await asyncio.gather(
            *(_start(site, STAYS, tenant=tenant) for _ in range(6)), return_exceptions=True
        )
        begun = [end for end in ends if isinstance(end, str)]
        assert len(begun) == 2
        refused = [end for end in ends if isinstance(end, NoRoom)]
        assert len(refused) == 4
        assert all(f"2 of 2 runs of {tenant} are open" in end.message for end in refused)
        for run in begun:
            await _end(site, run)


async def test_a_run_that_a_temporal_client_started_counts_for_its_tenant(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "SHARED_S", 0.0)
    limits = {"max_open_runs_per_tenant": 2, "above_max_open_runs": "refuse"}
    async with _limited(server, tmp_path, **limits) as (site, run):
        model = await site.script(STAYS)
        task = {
            "goal": "look",
            "learn": False,
            "models": {"executor": model},
            "metadata": {"tenant": "acme"},
        }
        plain = f"plain-{uuid.uuid4().hex[:8]}"
        await site.client.start_workflow(
            "AgentLoop", task, id=plain, task_queue=site.settings.task_queue
        )

        queue = loops_queue(await site.parts.stores.records.installation())

        async def counted() -> bool:
            query = f"{admission.OPEN_ROOTS} AND TaskQueue = '{queue}' AND PerdureTenant = 'acme'"
            return (await site.client.count_workflows(query)).count == 2

        await eventually(counted)
        with pytest.raises(NoRoom, match="2 of 2 runs of acme are open"):
            await _start(site, DONE, tenant="acme")
        await _end(site, plain)
        await _end(site, run)


async def _end(site: Installation, run: str) -> None:
    await site.gateway.verb(run, Stop(mode="now"))
    await site.gateway.result(run)


async def test_a_start_above_the_limit_of_its_tenant_is_refused(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    limits = {"max_open_runs_per_tenant": 1, "above_max_open_runs": "refuse"}
    async with _limited(server, tmp_path, **limits) as (site, run):
        with pytest.raises(NoRoom, match="1 of 1 runs of acme are open") as caught:
            await _start(site, DONE, tenant="acme")
        assert "Nothing was started" in caught.value.message
        assert [one.id for one in await site.parts.stores.records.find_runs()] == [run]
        other = await _start(site, DONE, tenant="other")
        assert (await site.gateway.result(other)).output == "done"
        await _end(site, run)


async def test_a_start_above_the_limit_waits_for_room_and_says_so(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LOOK_S", 0.1)
    async with _limited(server, tmp_path, max_open_runs=1) as (site, run):
        with capture_logs() as logs:
            waiting = asyncio.create_task(_start(site, DONE, tenant="other"))
            await eventually(lambda: any(one["event"] == "start_waits" for one in logs))
            assert not waiting.done()
            await _end(site, run)
            assert (await site.gateway.result(await waiting)).output == "done"
        (told,) = [one for one in logs if one["event"] == "start_waits"]
        assert told["because"] == "1 of 1 runs are open (PERDURE_MAX_OPEN_RUNS)"
