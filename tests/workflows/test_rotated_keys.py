"""The encryption key is changed while runs are open; the old one goes when nothing needs it."""

import base64
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import agent_runs
import pytest
from installation import Installation, WorkerProcess, installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.adapters.stores.encryption import public_id
from perdure.adapters.stores.key_use import KeyRegistry
from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.run.messages import Answer
from perdure.operations.doctor import diagnose
from perdure.operations.keys import key_uses, retire, rewrap_all

OLD, NEW = (bytes([n]) * 32 for n in (1, 2))
OLD_ID, NEW_ID = public_id(OLD), public_id(NEW)
ASKS = agent_runs.calls(agent_runs.call("human.ask", question="Tea?", choices=["yes", "no"]))
NOW = datetime(2026, 1, 2, tzinfo=UTC)
PLAY = (ASKS, {"text": "done"})
NAMES = {OLD: "env:KEY_ONE", NEW: "env:KEY_TWO"}


def keys(first: bytes, *others: bytes) -> dict[str, str]:
    """Settings of a process, and the variables that they refer to."""
    return {
        "PERDURE_ENCRYPTION_KEY": NAMES[first],
        "PERDURE_ENCRYPTION_OLD_KEYS": ",".join(NAMES[one] for one in others),
        "KEY_ONE": base64.b64encode(OLD).decode(),
        "KEY_TWO": base64.b64encode(NEW).decode(),
    }


@pytest.mark.slow
async def test_a_key_is_rotated_while_runs_are_open(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = server.client.service_client.config.target_host
    home = tmp_path / "home"
    async with contextlib.AsyncExitStack() as opened:
        _set(monkeypatch, keys(OLD))
        before = await opened.enter_async_context(installation(home, address))
        one = await opened.enter_async_context(before.worker_process(**keys(OLD)))
        two = await opened.enter_async_context(before.worker_process(**keys(OLD)))
        runs = [await before.start(agent_runs.task(), agent_runs.script(*PLAY)) for _ in range(3)]
        for run in runs:
            await eventually(lambda run=run: _asks(before, run))
        # First every process learns to read the new key, and writes with the old one as before.
        for worker in (one, two):
            await _restarted(worker, keys(OLD, NEW))
        await _answer(before, runs[0])
        # Then each writes with the new one: the other workers read it already.
        _set(monkeypatch, keys(NEW, OLD))
        site = await opened.enter_async_context(installation(home, address))
        await _restarted(one, keys(NEW, OLD))
        await _answer(site, runs[1])
        await _restarted(two, keys(NEW, OLD))
        await _nobody_failed(site, runs)
        stores, gateway = site.parts.stores, site.gateway
        uses = {use.id: use for use in await key_uses(stores, gateway)}
        assert uses[NEW_ID].current
        assert uses[OLD_ID].rows
        assert uses[OLD_ID].blobs
        assert set(uses[OLD_ID].runs) == set(runs)
        told = await _told(site)
        assert f"old key {OLD_ID}: " in told
        assert "values of the database" in told
        with pytest.raises(NotAllowed, match=rf"{OLD_ID} is still needed: .*blob.*3 runs"):
            await retire(stores, gateway, OLD_ID, now=NOW)
        with pytest.raises(NotAllowed, match="encrypts what is written now"):
            await retire(stores, gateway, NEW_ID, now=NOW)
        with pytest.raises(NotFound):
            await retire(stores, gateway, "0" * 16, now=NOW)
        done = await rewrap_all(stores)
        assert done.rows
        assert done.blobs
        assert (await rewrap_all(stores)).rows == 0
        with pytest.raises(NotAllowed, match="needed: the histories of 3 runs") as caught:
            await retire(stores, gateway, OLD_ID, now=NOW)
        assert "retention" in caught.value.cure
        # What was encrypted again is read while its run is open.
        await _answer(site, runs[2])
        for run in runs:
            assert (await site.gateway.result(run)).reason == "text_answer"
            await site.gateway.delete(run)
        await eventually(lambda: _free(site))
        await retire(stores, gateway, OLD_ID, now=NOW)
        retired = {use.id: use for use in await key_uses(stores, gateway)}[OLD_ID]
        assert (retired.needed, retired.retired_at) == (False, NOW)
        # Without the old key a worker starts, and everything that is left is read.
        await _restarted(one, keys(NEW))
        stores = await open_stores(home, encryption_keys=(NEW,))
        async for blob, _, _ in stores.blobs.addresses():
            assert await stores.blobs.get(blob) is not None
        assert len(await stores.records.find_runs(limit=9)) == 0
        await stores.close()


def _set(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


async def _restarted(worker: WorkerProcess, variables: dict[str, str]) -> None:
    await worker.terminate()
    worker._environment = variables
    await worker.start()


async def _answer(site: Installation, run: str) -> None:
    (gate,) = (await site.status(run)).gates
    await site.gateway.verb(run, Answer(gate=gate.name, choice="yes"))
    await site.gateway.result(run)


async def _asks(site: Installation, run: str) -> bool:
    return bool((await site.gateway.status(run)).gates)


async def _free(site: Installation) -> bool:
    uses = await key_uses(site.parts.stores, site.gateway)
    return not any(use.needed for use in uses if use.id == OLD_ID)


async def _told(site: Installation) -> str:
    @contextlib.asynccontextmanager
    async def connect(**_given: object):
        yield type(
            "Doors",
            (),
            {"gateway": site.gateway, "notices": staticmethod(site.parts.stores.notices)},
        )

    checks = {check.name: check async for check in diagnose(site.settings, connect)}  # type: ignore[arg-type]
    return checks["encryption"].found


async def _nobody_failed(site: Installation, runs: list[str]) -> None:
    """No task and no step met a value that its worker could not read."""
    for run in runs:
        events = json.dumps(await site.history(run))
        assert "WORKFLOW_TASK_FAILED" not in events
        assert "ACTIVITY_TASK_FAILED" not in events


@pytest.mark.long
async def test_a_worker_without_a_key_that_content_needs_does_not_start(tmp_path: Path) -> None:
    stores = await open_stores(tmp_path, encryption_keys=(OLD,))
    await KeyRegistry(stores.database).note(OLD_ID, at=NOW)
    await stores.close()
    variables = {
        **os.environ,
        **keys(NEW),
        "PERDURE_HOME": str(tmp_path),
        "TEMPORAL_ADDRESS": "127.0.0.1:9",
    }
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "perdure.worker"],
        env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert f"under the encryption key {OLD_ID}, which no setting names" in ended.stderr
    assert "perdure keys retire" in ended.stderr


async def test_words_are_found_after_their_key_is_gone(tmp_path: Path) -> None:
    from tests.workflows.test_sealed_rows import CANARY, _skill

    stores = await open_stores(tmp_path, encryption_keys=(OLD,))
    await stores.memory.put(_skill())
    blob = await stores.blobs.put(b"a word")
    await stores.close()
    stores = await open_stores(tmp_path, encryption_keys=(NEW, OLD))
    assert (await rewrap_all(stores)).blobs == 1
    await stores.close()
    stores = await open_stores(tmp_path, encryption_keys=(NEW,))
    assert await stores.blobs.get(blob) == b"a word"
    assert (await stores.memory.skill(CANARY)) is not None
    await stores.close()
    stores = await open_stores(tmp_path, encryption_keys=(OLD,))
    with pytest.raises(Exception, match="cannot be decrypted"):
        await stores.blobs.get(blob)
    await stores.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "perdure.sqlite")) as rows:
        assert CANARY not in str(rows.execute("SELECT * FROM memory").fetchall())


async def test_without_a_key_there_is_nothing_to_rotate(tmp_path: Path) -> None:
    stores = await open_stores(tmp_path)
    with pytest.raises(InvalidInput, match="No encryption key is set"):
        await rewrap_all(stores)
    await stores.close()
