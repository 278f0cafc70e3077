"""The product page through the real loop, written by the real embedded model."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import yaml
from installation import eventually, installation
from temporalio.testing import WorkflowEnvironment

from perdure.adapters.models.embedded_facts import embedded_available

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not embedded_available().ok, reason="the model's wheels are not installed"),
    pytest.mark.timeout(900),
]

TASK = Path(__file__).parents[2] / "perdure/definitions/tasks/product-page.yaml"
RUNS = 5
WANTED = 4
START_S = 180.0
SERVER = "perdure.adapters.models.embedded_server"


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def embedded_model(home: Path) -> AsyncGenerator[str]:
    """The model's server in a process of its own."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", SERVER, "--port", str(port), "--home", str(home)
    )

    async def answers() -> bool:
        assert process.returncode is None
        return await asyncio.to_thread(_healthy, f"http://127.0.0.1:{port}/health")

    try:
        await eventually(answers, seconds=START_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def _healthy(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, TimeoutError, ConnectionError):
        return False


async def test_four_of_five_runs_pass_all_checks(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    task = yaml.safe_load(TASK.read_text(encoding="utf-8"))
    # A slow machine is no reason to stop: what is measured is quality.
    task |= {"models": {"executor": "local"}, "budget": {"active_time": 3_600}}
    address = server.client.service_client.config.target_host
    async with (
        embedded_model(tmp_path / "model") as url,
        installation(tmp_path / "home", address, model_url=url) as site,
        site.worker(),
    ):
        results = [await site.run(task) for _ in range(RUNS)]
    passed = [result for result in results if result.best and result.best.score == 1.0]
    assert len(passed) >= WANTED, [result.explanation for result in results]
    for result in passed:
        assert (result.outcome, result.reason) == ("accepted", "quality_met")
        assert len((result.output or "").splitlines()) == 5
        assert len(result.iterations) <= 6
