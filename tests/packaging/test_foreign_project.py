"""The wheel beside a project with `workflows` and `activities` of its own, which awaits a loop.

Its worker has another plugin and a codec beside ours and is killed twice; a person answers with a
signal from TypeScript.
"""

import asyncio
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from installation import Installation
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.service import RPCError
from waiting import eventually

ROOT = Path(__file__).parents[2]
QUEUE = "their-orders"
CHILD = "their-mail"
RUBRIC = [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 2}}]


class Backwards(PayloadCodec):
    """A codec of theirs, which lets through what others sent."""

    async def encode(self, payloads):
        return [
            Payload(metadata={"encoding": b"backwards"}, data=one.SerializeToString()[::-1])
            for one in payloads
        ]

    async def decode(self, payloads):
        return [
            Payload.FromString(one.data[::-1])
            if one.metadata.get("encoding") == b"backwards"
            else one
            for one in payloads
        ]


PROJECT = {
    "activities/__init__.py": "",
    "activities/payments.py": """
from temporalio import activity

@activity.defn
async def charge(item: str) -> str:
    return f"charged for {item}"
""",
    "workflows/__init__.py": "",
    "workflows/orders.py": """
from datetime import timedelta
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.payments import charge
    from perdure.workflow import refine

@workflow.defn
class OrderWorkflow:
    @workflow.run
    async def run(self, task: dict) -> str:
        paid = await workflow.execute_activity(
            charge, "a bottle", start_to_close_timeout=timedelta(seconds=10)
        )
        result = await refine(**task)
        return f"{paid}: {result.outcome}: {result.output}"
""",
    "worker.py": """
import asyncio, os, sys
from dataclasses import replace
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.plugin import SimplePlugin
from temporalio.worker import Interceptor, Worker
from activities.payments import charge
from perdure.temporal import PerdurePlugin
from workflows.orders import OrderWorkflow
import perdure

CODEC

async def main():
    print(perdure.__file__, sys.modules["workflows"].__file__, flush=True)
    client = await Client.connect(
        os.environ["TEMPORAL_ADDRESS"],
        plugins=[SimplePlugin("theirs", interceptors=[Interceptor()]), PerdurePlugin()],
        data_converter=replace(DataConverter.default, payload_codec=Backwards()),
    )
    worker = Worker(
        client, task_queue=sys.argv[1], workflows=[OrderWorkflow], activities=[charge]
    )
    await worker.run()

asyncio.run(main())
""",
}
ANSWER = """
import { Client, Connection } from '@temporalio/client';
const connection = await Connection.connect({ address: process.env.TEMPORAL_ADDRESS });
const run = new Client({ connection }).workflow.getHandle(process.argv[2]);
await run.signal('answer', { gate: process.argv[3], choice: 'accept' });
await connection.close();
"""
SCRIPT = {
    "replies": [
        {"text": "one two three", "delay_s": 2.0},
        {"text": "one two three four", "delay_s": 2.0},
    ]
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it needs; nothing of the checkout is on its path."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    [wheel] = folder.glob("*.whl")
    venv.create(folder / "env")
    python = folder / "env" / "bin" / "python"
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    shutil.unpack_archive(wheel, own, "zip")
    # Of the libraries in this environment, all but the editable installation of the checkout: files
    # that end in .pth count in the environment's own folder alone.
    (Path(own) / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in PROJECT.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("CODEC", inspect.getsource(Backwards)))
    return tmp_path / "project"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
async def test_a_loop_is_a_child_beside_packages_of_their_own(
    bare: Installation, python: Path, project: Path, tmp_path: Path
) -> None:
    answer = await asyncio.to_thread(_typescript, tmp_path / "typescript")
    task = {
        "id": CHILD, "goal": "Be short.", "rubric": RUBRIC,
        "models": {"executor": await bare.script(SCRIPT)},
        "refine": {"plan": "off", "max_iterations": 2, "escalate_below": 0.9},
    }  # fmt: skip
    converter = replace(DataConverter.default, payload_codec=Backwards())
    client = await Client.connect(bare.address, data_converter=converter)
    order = await client.start_workflow("OrderWorkflow", task, id="order-1", task_queue=QUEUE)
    for calls in (1, 2):
        worker = await _worker(bare, python, project)
        await eventually(partial(_asked, bare, calls))
        worker.kill()
        await worker.wait()
    worker = await _worker(bare, python, project)
    try:
        gate = str(await eventually(partial(_gate, client)))
        environment = {**os.environ, "TEMPORAL_ADDRESS": bare.address}
        node = await asyncio.create_subprocess_exec("node", answer, CHILD, gate, env=environment)
        assert await node.wait() == 0
        assert (await order.result()).startswith("charged for a bottle: accepted: one two three")
    finally:
        worker.terminate()
        await worker.wait()


async def _worker(site: Installation, python: Path, project: Path) -> asyncio.subprocess.Process:
    """Their worker, which sees nothing but its own folder and the environment of the wheel."""
    process = await asyncio.create_subprocess_exec(
        python, "worker.py", QUEUE,
        cwd=project,
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            **site.settings.as_environment(),
            "TEMPORAL_ADDRESS": site.address,
        },
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    ours, theirs = (await process.stdout.readline()).decode().split()
    assert str(ROOT) not in ours
    assert Path(theirs) == project / "workflows" / "__init__.py"
    return process


async def _asked(site: Installation, calls: int) -> bool:
    """Whether so many calls of a model were begun, repeated ones included."""
    return len(await site.parts.stores.journal.rows(CHILD)) >= calls


async def _gate(client: Client) -> str:
    """The gate that the loop waits at; empty before."""
    try:
        status: dict[str, Any] = await client.get_workflow_handle(CHILD).query("status")
    except RPCError:
        return ""
    return str(status["gates"][0]["id"]) if status["gates"] else ""


def _typescript(folder: Path) -> Path:
    """A program that answers a gate with the TypeScript SDK alone."""
    shutil.copytree(ROOT / "docs" / "examples" / "temporal", folder)
    manifest = json.loads((folder / "package.json").read_text())
    assert "@temporalio/client" in {**manifest.get("dependencies", {})}
    npm = [str(shutil.which("npm")), "ci", "--no-audit", "--no-fund"]
    installed = subprocess.run(npm, cwd=folder, capture_output=True, text=True, check=False)
    if installed.returncode and re.search(r"ENOTFOUND|ECONNREFUSED|EAI_AGAIN", installed.stderr):
        pytest.skip("npm's registry cannot be reached")
    assert installed.returncode == 0, installed.stderr
    program = folder / "answer.mts"
    program.write_text(ANSWER)
    subprocess.run(
        [str(shutil.which("npm")), "exec", "--", "tsc", "--module", "nodenext",
         "--target", "es2022", "--skipLibCheck", str(program)],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return program.with_suffix(".mjs")
