"""Upgrade and rollback with calls in flight, on two trees of the product.

The steps are those of the procedures "Upgrade" and "Rollback" in docs/upgrades.md. The other tree
is made here: one minor version ahead, with a new field on inputs, states, step messages and rows.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from ground import FAST, Ground, ground
from other_version import VERSION as NEXT
from other_version import next_version
from provider import Play
from temporalio.testing import WorkflowEnvironment

from perdure.about import VERSION
from perdure.domain.foundation.errors import VersionsApart
from perdure.domain.run.status import RunStatus
from perdure.domain.specs import RUN_SPEC
from perdure.gateway.readiness import Readiness
from perdure.gateway.types import InstallationInfo, Waits

TURNS = 4
SPEC: dict[str, object] = {"kind": "agent", "goal": "look", "learn": False}


@pytest.fixture(scope="module")
def ahead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the next version."""
    return next_version(tmp_path_factory.mktemp("next"))


def _plays(name: str) -> list[Play]:
    """A run of some turns, the second of which waits for the test."""
    calls = [Play(text="", calls=[("effect.again", {"word": str(n)})]) for n in range(TURNS - 1)]
    calls[1] = Play(text="", calls=[("effect.again", {"word": "held"})], gate=name)
    return [*calls, Play(text="done")]


def _environment(drill: Ground, tree: Path | None) -> Mapping[str, str]:
    given = dict(drill.environment())
    if tree is not None:
        given["PYTHONPATH"] = os.pathsep.join((str(tree), given["PYTHONPATH"]))
    return given


async def _perdure(drill: Ground, tree: Path, *words: str) -> tuple[int, str]:
    """A door of the other version."""
    settings = drill.site.settings.as_environment()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "perdure", *words),
        env={
            **os.environ,
            **settings,
            "TEMPORAL_ADDRESS": drill.site.address,
            **_environment(drill, tree),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, told = await process.communicate()
    return process.returncode or 0, said.decode() + told.decode()


@pytest.mark.long
@pytest.mark.parametrize(
    "upgrade",
    [pytest.param(True, id="upgrade"), pytest.param(False, id="rollback", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    "cut",
    [pytest.param(False, id="drained"), pytest.param(True, id="killed", marks=pytest.mark.slow)],
)
async def test_runs_go_on_in_the_other_version(
    server: WorkflowEnvironment, tmp_path: Path, ahead: Path, *, upgrade: bool, cut: bool
) -> None:
    address = server.client.service_client.config.target_host
    timing = FAST.model_copy(update={"roll_events": 20})  # states cross over, too
    first, second = (None, ahead) if upgrade else (ahead, None)
    async with ground(tmp_path, address, timing=timing, shutdown_grace_s=20.0) as drill:
        drill.provider.plays = _plays("held")
        async with drill.site.worker_process(**_environment(drill, first)) as before:
            run = await drill.start()
            await drill.billed(2)
            async with drill.site.worker_process(**_environment(drill, second)):
                if cut:
                    await before.kill()
                    drill.provider.open("held")
                else:
                    before.ask_to_end()
                    drill.provider.open("held")
                    await before.gone()
                result = await drill.site.gateway.result(run)
                status = await drill.site.status(run)
        assert (result.outcome, result.output) == ("accepted", "done")
        assert (status.outcome, result.iteration_count) == ("accepted", TURNS)
        # The call in flight was finished by who drained; who was killed took one answer along.
        assert len(drill.provider.lines()) == TURNS + cut
        billed = sum(line.tokens for line in drill.provider.lines())
        assert result.spend.tokens >= billed


@pytest.mark.long
async def test_a_new_door_starts_runs_on_old_workers_and_reads_old_rows(
    drill: Ground, ahead: Path
) -> None:
    drill.provider.plays = [Play(text="done")]
    async with drill.site.worker_process(**_environment(drill, None)):
        code, said = await _perdure(
            drill, ahead, "run", "look", "--model", "ledger-model", "--set", "learn=false"
        )
        assert code == 0, said
        assert (await _perdure(drill, ahead, "status", "@last"))[0] == 0
    (run,) = await drill.site.parts.stores.records.find_runs()
    told = RunStatus.model_validate_json(run.status or "{}", extra="ignore")
    assert told.outcome == "accepted"


@pytest.mark.long
async def test_an_old_door_starts_runs_on_new_workers_and_reads_their_rows(
    drill: Ground, ahead: Path
) -> None:
    drill.provider.plays = [Play(text="done")]
    async with drill.site.worker_process(**_environment(drill, ahead)):
        result = await drill.site.gateway.result(await drill.start())
    assert result.outcome == "accepted"
    assert (await drill.site.status(result.id)).outcome == "accepted"
    states = await drill.site.records(result.id)
    assert len(states) == result.iteration_count


@pytest.mark.parametrize(
    ("worker", "note"),
    [(VERSION, None), (NEXT, None), ("0.0.9", "older than 0.1.0"), ("0.3.0", "apart")],
    ids=["alike", "newer", "older", "too-new"],
)
async def test_a_start_compares_the_versions_first(worker: str, note: str | None) -> None:
    from tests.gateway.test_readiness import SITE, Queues

    queues = Queues(version=worker)
    queues.open.set()
    readiness = Readiness(
        queues,  # pyright: ignore[reportArgumentType]  (the part that is used)
        facts=InstallationInfo(address="a", version=VERSION),
        waits=Waits(),
    )
    spec = RUN_SPEC.validate_python(SPEC)
    if note == "apart":
        with pytest.raises(VersionsApart, match="Nothing was started") as caught:
            await readiness.require(SITE, spec)
        assert "Upgrade the older side" in caught.value.cure
        return
    told = await readiness.require(SITE, spec)
    assert (told is None) if note is None else (note in str(told))
