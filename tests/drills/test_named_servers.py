"""A server that is named, with workers elsewhere: who submits starts nothing and needs no key."""

import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest
from installation import Installation

from perdure.domain.foundation.errors import NoReadyWorker
from perdure.domain.specs import RUN_SPEC


def _of_home(home: Path) -> list[str]:
    """What runs for a home folder."""
    found: list[str] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PERDURE_HOME") == str(home):
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, ProcessLookupError):
            continue
    return found


async def _perdure(site: Installation, *words: str, **more: str) -> tuple[int, str]:
    clean = {name: value for name, value in os.environ.items() if "ANTHROPIC" not in name}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "perdure", *words),
        env={**clean, "PERDURE_HOME": str(site.home), "TEMPORAL_ADDRESS": site.address, **more},
        cwd=site.home,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


@pytest.mark.long
async def test_a_run_starts_nothing_of_ours_beside_a_named_server(bare: Installation) -> None:
    code, said = await _perdure(bare, "run", "say hello", "--model", "local", "--detach")
    assert code == NoReadyWorker.exit_code, said
    assert "Start one with `perdure worker`" in said
    assert _of_home(bare.home) == []


@pytest.mark.long
async def test_the_default_model_is_the_workers(bare: Installation) -> None:
    script = await bare.script({"replies": [{"text": "done"}], "exhausted": "repeat_last"})
    async with bare.worker(model=script):
        assert await bare.gateway.default_model() == script
        code, said = await _perdure(bare, "run", "say hello", "--set", "learn=false")
    assert code == 0, said
    (run,) = await bare.parts.stores.records.find_runs()
    spec = RUN_SPEC.validate_json(await bare.parts.stores.blobs.get(str(run.spec)))
    assert spec.models.executor == script


@pytest.mark.long
async def test_a_name_that_only_the_workers_know_is_theirs_to_judge(bare: Installation) -> None:
    async with bare.worker(anthropic_base_url="http://127.0.0.1:1", anthropic_api_key="x"):
        spec = {"kind": "agent", "goal": "g", "models": {"executor": "our-own-model"}}
        given = RUN_SPEC.validate_python(spec)
        assert (await bare.gateway.check(given)).models.executor == "our-own-model"
