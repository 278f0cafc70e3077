"""A server that no command of ours has seen, one `perdure worker`, and Temporal's own command."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from installation import dev_server
from provider import MODEL, PRICE_SHEET, Play, Provider
from waiting import eventually

from perdure.local_services.service_commands import temporal_binary

TASK = {"goal": "Say done.", "models": {"executor": MODEL}, "learn": False}
BAD = {"goal": "Say done.", "budget": {"cost_usd": "-1"}}
PERDURE = (sys.executable, "-P", "-m", "perdure")


async def _done(*command: str, env: Mapping[str, str]) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *command, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


@asynccontextmanager
async def _worker(env: Mapping[str, str], log: Path) -> AsyncGenerator[None]:
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *PERDURE, "worker", env=env, stdout=out, stderr=out
        )
        try:
            await eventually(lambda: b"polls" in log.read_bytes())
            yield
        finally:
            process.terminate()
            await process.wait()


@pytest.mark.long
async def test_a_task_started_by_temporal_alone_runs_on_a_bare_server(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "prices.yaml").write_text(PRICE_SHEET)
    provider = Provider(tmp_path / "provider.jsonl", (Play(text="done"),))
    async with dev_server(prepared=False) as server, provider.serving():
        address = server.client.service_client.config.target_host
        env = {
            **os.environ,
            "TEMPORAL_ADDRESS": address,
            "PERDURE_HOME": str(home),
            "ANTHROPIC_BASE_URL": provider.url,
            "ANTHROPIC_API_KEY": "loopback",
        }

        async def temporal(*words: str) -> tuple[int, str]:
            return await _done(str(temporal_binary()), "workflow", *words, env=env)

        async with _worker(env, tmp_path / "worker.log"):
            start = ("start", "--type", "AgentLoop", "--task-queue", "perdure")
            code, said = await temporal(
                *start, "--workflow-id", "first", "--input", json.dumps(TASK)
            )
            assert code == 0, said
            code, said = await temporal("result", "--workflow-id", "first", "--output", "json")
            assert (code, json.loads(said)["result"]["output"]) == (0, "done"), said
            code, said = await temporal("execute", *start[1:], "--input", json.dumps(BAD))
            assert code != 0
            assert "cost_usd" in said, said

            async def listed() -> bool:
                code, said = await _done(*PERDURE, "list", "--json", env=env)
                outcomes = {row["id"]: row["outcome"] for row in json.loads(said)["runs"]}
                return code == 0 and sorted(map(str, outcomes.values())) == ["accepted", "failed"]

            await eventually(listed)
            code, said = await _done(*PERDURE, "result", "first", env=env)
            assert (code, "done" in said) == (0, True), said
    assert len(provider.lines()) == 1
