"""Everything at once: a paused run whose worker and server die ends as if nothing had happened."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from ground import Ground, ground
from provider import Play
from server_process import server_process
from waiting import eventually
from web_ui import web_ui

from perdure.domain.run.messages import Pause
from perdure.domain.run.result import RunResult

PLAYS = (
    Play(text="", calls=[("effect.again", {"word": "a"})], gate="first"),
    Play(text="", calls=[("effect.approved", {"word": "b"})]),
    Play(text="Both are done."),
)


async def _approve_by_command(made: Ground, run: str) -> None:
    """`perdure answer`, as a person types it once the gate is open."""

    asked: list[str] = []

    async def waits() -> bool:
        asked[:] = [gate.name for gate in (await made.site.status(run)).gates]
        return bool(asked)

    await eventually(waits)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "perdure", "answer", f"{run}:{asked[0]}", "approve",
        env={
            **os.environ,
            **made.site.settings.as_environment(),
            "TEMPORAL_ADDRESS": made.site.address,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()


async def _paused_at_rest(made: Ground, run: str) -> None:
    async def at_rest() -> bool:
        status = await made.site.status(run)
        return status.lifecycle == "paused" and status.step is None

    await eventually(at_rest)


async def _undisturbed(folder: Path, address: str) -> tuple[Ground, RunResult]:
    async with ground(folder, address, plays=PLAYS) as made, made.process():
        made.provider.open("first")
        run = await made.start()
        await _approve_by_command(made, run)
        return made, await made.check(run)


def _billed(made: Ground) -> list[tuple[int, int]]:
    return [(line.input_tokens, line.output_tokens) for line in made.provider.lines()]


def _effects(made: Ground) -> list[tuple[str, str]]:
    lines = [json.loads(row) for row in made.effects.read_text().splitlines()]
    return [(line["tool"], line["word"]) for line in lines]


@pytest.mark.slow
async def test_a_paused_run_survives_worker_and_server(tmp_path: Path) -> None:
    async with server_process(tmp_path, ui=True) as server:
        twin, expected = await _undisturbed(tmp_path / "twin", server.address)
        async with (
            ground(tmp_path / "run", server.address, plays=PLAYS) as made,
            made.process() as worker,
        ):
            run = await made.start()
            await made.billed(1)
            await made.verb(run, Pause(by="me"))
            made.provider.open("first")
            await _paused_at_rest(made, run)
            await worker.kill()
            await server.kill()
            await server.start()
            await worker.start()
            await _paused_at_rest(made, run)
            assert len(made.provider.lines()) == 1, "nothing ran while it was paused"
            async with web_ui(server.ui_url) as tab:
                await tab.run(run)
                await tab.signal("resume", json.dumps({"by": "web"}))
            await _approve_by_command(made, run)
            result = await made.check(run, kills=1, failed_tasks=2)
    assert (result.outcome, result.output) == (expected.outcome, expected.output)
    assert (result.iteration_count, result.tools_used) == (
        expected.iteration_count,
        expected.tools_used,
    )
    assert (result.spend.tokens, result.spend.cost_usd, result.spend.model_calls) == (
        expected.spend.tokens,
        expected.spend.cost_usd,
        expected.spend.model_calls,
    )
    assert _billed(made) == _billed(twin)
    assert _effects(made) == _effects(twin) == [("again", "a"), ("approved", "b")]
