"""Starts that wait for room on a connection: who leaves starts nothing, who repeats joins."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from rest import Rest, scripted, served
from structlog.testing import capture_logs
from structlog.typing import EventDict
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.audit import AuditFilter
from perdure.gateway import admission

LOOPS = "/api/v1/loops"
TASK = {"kind": "agent", "goal": "say something", "learn": False, "recall": False}
STAYS = {"replies": [{"text": "done", "delay_s": 600}], "exhausted": "repeat_last"}


@pytest.fixture
async def full(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Rest, str]]:
    """A door where one run may be open, and the run that is."""
    monkeypatch.setattr(admission, "LOOK_S", 0.1)
    monkeypatch.setattr(admission, "LONGEST_LOOK_S", 0.2)
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, STAYS, max_open_runs="1") as site,
        site.worker(),
        served(site) as door,
    ):
        run = await door.start(TASK)
        yield door, run
        for row in await site.parts.stores.records.find_runs():
            await end(door, row.id)


async def end(door: Rest, run: str) -> None:
    await door.client.post(f"{LOOPS}/{run}/stop", json={"mode": "now"})
    await door.site.gateway.result(run)


def posting(door: Rest) -> "asyncio.Task[httpx2.Response]":
    key = {"idempotency-key": "order 7"}
    return asyncio.create_task(door.client.post(LOOPS, json=TASK, headers=key))


async def waits(logs: list[EventDict], starts: int = 1) -> None:
    await eventually(lambda: sum(one["event"] == "start_waits" for one in logs) >= starts)


async def test_a_start_whose_client_has_left_is_given_up(full: tuple[Rest, str]) -> None:
    door, run = full
    stores = door.site.parts.stores
    with capture_logs() as logs:
        leaving = posting(door)
        await waits(logs)
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving

        async def given_up() -> bool:
            told = await stores.audit.entries(AuditFilter(action="start"))
            return any("The caller left" in one.about for one in told)

        await eventually(given_up)
    await end(door, run)
    assert [one.id for one in await stores.records.find_runs()] == [run]
    # Its key is free: another body is another start.
    other = await door.client.post(
        LOOPS, json=TASK | {"goal": "else"}, headers={"idempotency-key": "order 7"}
    )
    assert other.status_code == 201


async def test_a_repeat_that_waits_is_answered_with_the_run_of_the_first(
    full: tuple[Rest, str],
) -> None:
    door, run = full
    with capture_logs() as logs:
        both = [posting(door), posting(door)]
        await waits(logs, 2)
        await end(door, run)
        answers = await asyncio.gather(*both)
    assert sorted(answer.status_code for answer in answers) == [200, 201]
    first, second = (answer.json()["id"] for answer in answers)
    assert first == second != run
    assert (await door.site.gateway.status(first)).lifecycle == "running"
