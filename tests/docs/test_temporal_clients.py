"""The programs of the page on Temporal clients start a loop, approve its call and read its result.

They know nothing of Perdure: each has its language's Temporal SDK alone.
"""

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import pytest
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment
from temporalio.workflow import _Definition

from perdure.adapters.temporal.codec_server import CodecServer
from perdure.adapters.temporal.encryption_keys import encryption_keys
from perdure.domain.foundation.names import BETWEEN_RUNS, QUERIES
from perdure.local_services.service_commands import temporal_binary
from perdure.workflows.refine import RefineLoop

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "temporal"
PAGE = (ROOT / "docs" / "temporal.md").read_text(encoding="utf-8")
MOST_LINES = 40
NO_MORE: Mapping[str, str] = MappingProxyType({})
WRITTEN = {"path": "notes.md", "content": "Fewer bugs.", "expected_hash": "absent"}
SCRIPT = {
    "replies": [
        {"tool_calls": [{"name": "fs.write", "arguments": WRITTEN}]},
        {"text": "The notes are in notes.md."},
    ]
}


async def _told(
    site: Installation, folder: Path, *command: str, environment: Mapping[str, str] = NO_MORE
) -> list[str]:
    """What a program prints that starts the page's task, played by a script."""
    task = json.loads((EXAMPLES / "task.json").read_text(encoding="utf-8"))
    task["models"] = {"executor": await site.script(SCRIPT)}
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *command,
        "task.json",
        cwd=folder,
        env={
            **os.environ,
            "TEMPORAL_ADDRESS": site.address,
            "PERDURE_TASK_QUEUE": site.settings.task_queue,
            **environment,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    # A thread of the SDK's core may crash an interpreter that has done everything and ends; what it
    # printed before shows that it did.
    crashed = process.returncode == -signal.SIGSEGV or b"runtime state: finalizing" in err
    assert process.returncode == 0 or crashed, err.decode()
    return out.decode().splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES, tmp_path / "temporal"))


def _as_the_page_says(lines: list[str]) -> None:
    assert lines[0].startswith("approve: ")
    assert "notes.md" in "".join(lines)
    assert lines[-2:] == ["accepted", "The notes are in notes.md."]


async def test_the_python_program(site: Installation, folder: Path) -> None:
    _as_the_page_says(await _told(site, folder, sys.executable, "start.py"))


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
@pytest.mark.long
async def test_the_typescript_program(site: Installation, folder: Path) -> None:
    await _compiled(folder)
    _as_the_page_says(await _told(site, folder, "node", "start.js"))


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
@pytest.mark.long
async def test_the_typescript_program_with_an_encryption_key(
    server: WorkflowEnvironment, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codec of the page seals what the program sends, and opens what it reads."""
    await _compiled(folder)
    monkeypatch.setenv("TEST_SEALING_KEY", base64.b64encode(b"k" * 32).decode())
    address = server.client.service_client.config.target_host
    opened = installation(tmp_path / "home", address, encryption_key="env:TEST_SEALING_KEY")
    async with opened as site, site.worker(), _codec_server(site) as codec:
        told = await _told(site, folder, "node", "start.js", environment=codec)
    _as_the_page_says(told)


@asynccontextmanager
async def _codec_server(site: Installation) -> AsyncGenerator[dict[str, str]]:
    """The codec server of an installation, as the variables that name it to the program."""
    keys, token = encryption_keys(site.settings), "of-the-codec-server"
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    made = CodecServer(keys, token=token, namespace="default", origins=[], port=0)
    serving = asyncio.create_task(made.serve(address.set_result))
    try:
        yield {"CODEC_ADDRESS": await address, "CODEC_TOKEN": token}
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def _compiled(folder: Path) -> None:
    installed = await asyncio.to_thread(_npm, folder, "ci", "--no-audit", "--no-fund")
    if installed.returncode and re.search(r"ENOTFOUND|ECONNREFUSED|EAI_AGAIN", installed.stderr):
        pytest.skip("npm's registry cannot be reached")
    assert installed.returncode == 0, installed.stderr
    compiled = await asyncio.to_thread(_npm, folder, "exec", "tsc")
    assert compiled.returncode == 0, compiled.stdout


def _npm(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(shutil.which("npm")), *words], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_the_go_program_is_built(folder: Path) -> None:
    for words in (("mod", "init", "notes"), ("get", "go.temporal.io/sdk"), ("build", "start.go")):
        subprocess.run([str(shutil.which("go")), *words], cwd=folder, check=True)


@pytest.mark.parametrize("name", ["start.py", "start.ts", "codec.ts", "start.go"])
def test_a_program_is_short_and_linked(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    assert f"examples/temporal/{name}" in PAGE


NAMES = set(re.findall(r"^temporal workflow .* --name (\w+)", PAGE, re.MULTILINE))


async def test_the_commands_of_the_page_are_taken(site: Installation) -> None:
    """Each line of the page with Temporal's own command line, against one run."""
    start = re.search(r"--input '(\{\"goal\".*\})'", PAGE)
    assert start is not None
    task = json.loads(start.group(1))
    task["models"] = {"executor": await site.script({"replies": [{"text": "A steel bottle."}]})}
    task["refine"] = {"plan": "off"}
    queue = site.settings.task_queue
    await _temporal(
        site, "workflow", "start", "--type", "RefineLoop", "--task-queue", queue,
        "--workflow-id", "bottle-1", "--input", json.dumps(task),
    )  # fmt: skip
    result = json.loads(
        await _temporal(site, "workflow", "result", "--workflow-id", "bottle-1", "-o", "json")
    )
    assert result["status"] == "COMPLETED"
    assert result["result"]["outcome"] == "accepted"
    assert _verbs() - {"retry", None} <= NAMES <= {*_verbs(), *QUERIES}


def _verbs() -> set[str | None]:
    definition = _Definition.must_from_class(RefineLoop)
    return {*definition.signals, *definition.updates} - {*BETWEEN_RUNS}


async def _temporal(site: Installation, *words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(temporal_binary()), *words, "--address", site.address,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()
