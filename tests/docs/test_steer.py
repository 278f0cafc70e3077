"""The example of the Python API does what the README says."""

import asyncio
import importlib.util
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType

from installation import Installation
from rest import services_of

from perdure.client import Client
from perdure.experiment_client import Experiments
from perdure.interfaces.opening import Opening
from perdure.submission.types import Surroundings

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "steer.py"
WRITTEN = {"path": "notes.md", "content": "x", "expected_hash": "absent"}
SCRIPT = {
    "replies": [
        {"tool_calls": [{"name": "fs.write", "arguments": WRITTEN}]},
        {"text": "The notes are in notes.md."},
    ]
}


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("steer_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_example_answers_and_reads_the_result(site: Installation, tmp_path: Path) -> None:
    steer = example()
    surroundings = Surroundings(
        folder=tmp_path, user_defaults=tmp_path / "none.yaml", default_model="local"
    )
    client = Client(
        gateway=site.gateway,
        blobs=site.parts.stores.blobs,
        live=site.parts.stores.live(),
        experiments=Experiments(services=services_of(site), surroundings=surroundings, by="test"),
        surroundings=surroundings,
        by="test",
        opening=Opening(),
        resources=AsyncExitStack(),
    )
    task = {**steer.TASK, "models": {"executor": await site.script(SCRIPT)}}
    result = await steer.steer(client, task)
    assert (result.outcome, result.output) == ("accepted", "The notes are in notes.md.")
    assert result.tools_used == {"fs.write": 1}


async def test_the_example_runs_as_shipped_without_a_key(site: Installation) -> None:
    known = {name: value for name, value in os.environ.items() if "ANTHROPIC" not in name}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        str(EXAMPLE),
        env={**known, **site.settings.as_environment(), "TEMPORAL_ADDRESS": site.address},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    outcome, *_, output = out.decode().splitlines()
    assert (outcome, output) == ("accepted", "The notes are in notes.md.")
