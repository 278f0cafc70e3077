"""Erasures that are killed in the middle: nothing stays half erased."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from installation import Installation
from waiting import eventually

from perdure.domain.run.status import StoredRun
from perdure.operations.doctor_server import erasing
from perdure.operations.erase import Eraser
from perdure.operations.gc import collect

SECRET = "Ada Lovelace-Byron"
ERASED = 10
SCRIPT = {"replies": [{"text": f"A letter to {SECRET}."}]}
OTHER = {"replies": [{"text": "A letter to nobody."}]}


async def _letters(
    site: Installation, label: str, script: Mapping[str, object], count: int
) -> list[str]:
    task = {
        "kind": "agent",
        "goal": f"Write to {label}.",
        "learn": False,
        "metadata": {"label": label},
    }
    runs = [await site.start(task, script) for _ in range(count)]
    for run in runs:
        await site.gateway.result(run)

    async def closed() -> bool:
        listed = site.client.list_workflows("CloseTime IS NOT NULL")
        return set(runs) <= {found.id async for found in listed}

    await eventually(closed)
    return runs


async def _perdure(site: Installation, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "perdure", *words),
        env={**os.environ, **site.settings.as_environment(), "TEMPORAL_ADDRESS": site.address},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def _left(site: Installation, runs: list[str]) -> dict[str, StoredRun]:
    found = {run: await site.parts.stores.records.run(run) for run in runs}
    return {run: row for run, row in found.items() if row is not None}


async def _known(site: Installation, runs: list[str]) -> set[str]:
    """Those whose executions the server still has."""
    return {found.id async for found in site.client.list_workflows()} & set(runs)


@pytest.mark.long
@pytest.mark.parametrize("by", ["resume", pytest.param("collection", marks=pytest.mark.slow)])
async def test_an_erasure_that_was_killed_is_completed(kept: Installation, by: str) -> None:
    site, stores = kept, kept.parts.stores
    async with site.worker():
        runs = await _letters(site, "ada", SCRIPT, ERASED)
        others = await _letters(site, "nobody", OTHER, 2)
        texts = await stores.erasure().texts(others)
        process = await _perdure(site, "erase", "--label", "ada", "--yes")

        async def begun() -> bool:
            return (
                bool((await stores.erasure().pending()).roots)
                and len(await _left(site, runs)) < ERASED
            )

        await eventually(begun, every=0.002)
        process.kill()
        await process.communicate()
        # It had only begun: what is left is known, and the doctor says so.
        pending = await stores.erasure().pending()
        assert 0 < len(pending.roots) <= ERASED
        check = erasing(pending)
        assert check is not None
        assert "perdure erase --resume" in check.cure
        if by == "resume":
            process = await _perdure(site, "erase", "--resume", "--yes", "--json")
            said, _ = await process.communicate()
            assert process.returncode == 0, said.decode()
            assert set(json.loads(said)["runs"]) == set(pending.roots)
        later = datetime.now(UTC) + timedelta(hours=2)

        async def went() -> bool:
            # The server deletes an execution a moment later; until then its history names content.
            await collect(stores, site.gateway, site.parts.workspaces, now=later, dry_run=False)
            left = await stores.erasure().pending()
            return not left.roots and not left.blobs and not await _known(site, runs)

        await eventually(went)
        assert await _left(site, runs) == {}
        for run in runs:
            stones = await stores.erasure().tombstones(run)
            assert [stone.why for stone in stones] == ["erased"]
            # The audit trail and the journal keep its id.
            assert not any(SECRET in text for text in await stores.erasure().texts([run]))
            assert await stores.records.records(run) == []
        assert await Eraser(stores, site.gateway).find(subject=SECRET) == []
        async for address, _, _ in stores.blobs.addresses():
            content = (await stores.blobs.get(address)).decode(errors="replace")
            # The script of the model is no content of a run: the test stored it.
            assert f"A letter to {SECRET}." not in content.replace("- text: ", "")
        assert await stores.erasure().texts(others) == texts
        for run in others:
            assert (await site.gateway.result(run)).output == "A letter to nobody."
