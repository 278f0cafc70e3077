"""Blobs on S3 while its network fails at random and workers are killed: nothing lost or half there.

Every run ends as the undisturbed one, and the bucket then holds what the rows name, whole, and
nothing else.
"""

import asyncio
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from installation import Installation, WorkerProcess, installation
from mixed import Told, results_of, start_mixed
from object_store import Fault, Faulty, ask, made_bucket
from temporalio.testing import WorkflowEnvironment

from perdure.adapters.stores.maintenance import named_by_rows
from perdure.domain.foundation.errors import NotFound
from perdure.domain.foundation.refs import addresses_in
from perdure.operations.gc import collect

FAULTS: list[Fault] = ["503", "500 afterwards", "slow", "cut", "refused"]
PAUSE_S = 1.5


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("rounds", "store"),
    [
        pytest.param(1, "sqlite", id="1 kill"),
        pytest.param(5, "sqlite", id="5 kills"),
        pytest.param(5, "postgresql", id="5 kills on PostgreSQL"),
    ],
)
async def test_runs_end_as_undisturbed_whatever_the_network_does(
    request: pytest.FixtureRequest,
    server: WorkflowEnvironment,
    tmp_path: Path,
    faulty: Faulty,
    s3_server: str,
    rounds: int,
    store: str,
) -> None:
    bucket, chance = made_bucket(s3_server), random.Random(rounds)
    place = f"s3://{bucket}/drill"
    url = None if store == "sqlite" else request.getfixturevalue("postgresql_url")
    address = server.client.service_client.config.target_host
    async with (
        installation(
            tmp_path / "home", address, heartbeat_s=2.0, blobs=place, database_url=url
        ) as site,
        site.worker_process() as worker,
    ):
        undisturbed = _compared(await results_of(site, await start_mixed(site)))
        for _ in range(rounds):
            # Few kills a run: who loses five workers over one step asks a person.
            sets = [await start_mixed(site, middle_s=2 * chance.random()) for _ in range(2)]
            faulty.choose = lambda _method, _path: (
                chance.choice(FAULTS) if chance.random() < 0.3 else None
            )
            await _killed(worker, chance)
            faulty.away()
            await asyncio.sleep(PAUSE_S)
            faulty.back()
            for runs in sets:
                assert _compared(await results_of(site, runs)) == undisturbed
        assert {fault for *_, fault in faulty.seen} >= {"refused", "503"}
        assert await _lost(site) == set()
        await _tidied(site, s3_server, bucket)
        assert await _lost(site) == set()


async def _killed(worker: WorkerProcess, chance: random.Random) -> None:
    await asyncio.sleep(PAUSE_S * chance.random())
    await worker.kill()
    await worker.start()
    await asyncio.sleep(PAUSE_S * chance.random())


def _compared(results: dict[str, Told]) -> dict[str, Told]:
    """Without what a killed call costs again."""
    return {kind: replace(told, tokens=0, calls=0) for kind, told in results.items()}


async def _lost(site: Installation) -> set[str]:
    """What rows and other blobs name and nobody can read; damaged content raises."""
    blobs = site.parts.stores.blobs
    seen: set[str] = set()
    lost: set[str] = set()
    waiting = await named_by_rows(site.parts.stores.database)
    while waiting:
        address = waiting.pop()
        seen.add(address)
        try:
            waiting |= addresses_in(await blobs.get(address)) - seen
        except NotFound:
            lost.add(address)
    return lost


async def _tidied(site: Installation, s3_server: str, bucket: str) -> None:
    """After a collection the objects are those that rows name, and the installation's mark."""
    parts, later = site.parts, datetime.now(UTC) + timedelta(hours=3)
    await collect(parts.stores, site.gateway, parts.workspaces, now=later, dry_run=False)
    kept = [found async for found in parts.stores.blobs.addresses()]
    _, listed = ask(s3_server, "GET", f"/{bucket}?list-type=2&max-keys=1000")
    assert listed.count(b"<Key>") == len(kept) + 1
