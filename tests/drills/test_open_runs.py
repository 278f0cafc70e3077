"""Starts above the limit of open runs, on a real server: refused in words, or waiting for room."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from installation import Installation, installation
from structlog.testing import capture_logs
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
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


async def _end(site: Installation, run: str) -> None:
    await site.gateway.verb(run, Stop(mode="now"))
    await site.gateway.result(run)


async def test_a_start_above_the_limit_of_its_tenant_is_refused(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    limits = {"max_open_runs_per_tenant": 1, "above_max_open_runs": "refuse"}
    async with _limited(server, tmp_path, **limits) as (site, run):
        with pytest.raises(NotAllowed, match="1 of 1 runs of acme are open") as caught:
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
