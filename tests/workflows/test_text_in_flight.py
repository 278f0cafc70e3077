"""People watch what a model says: from Python, from the command line, over a killed worker."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping

import pytest
from holding import Holding
from installation import Installation
from steered import HELD_LIST, spec
from waiting import eventually

from perdure.domain.run.live_text import LivePart
from perdure.run_handle import RunHandle

SAID = " ".join(f"word-{number}" for number in range(80))


def script(delay_s: float, *first: Mapping[str, object]) -> dict[str, object]:
    return {"replies": [*first, {"text": SAID, "delay_s": delay_s}]}


async def watched(site: Installation, run: str) -> bool:
    return run in await site.parts.stores.live().watched()


def handle(site: Installation, run: str) -> RunHandle:
    return RunHandle(run, gateway=site.gateway, live=site.parts.stores.live(), by="test")


def together(parts: list[LivePart]) -> str:
    """The text of the last attempt."""
    text = ""
    for part in parts:
        if part.type == "call_restarted":
            text = ""
        text += " " * part.skipped + part.text
    return text


async def printed(site: Installation, *argv: str) -> tuple[int | None, str]:
    """What a command prints beside the site's own worker."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "perdure", *argv,
        env={
            **os.environ, **site.settings.as_environment(), "TEMPORAL_ADDRESS": site.address,
        },
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode, output.decode()


@pytest.mark.long
async def test_a_call_is_heard_from_python_to_its_end(site: Installation, holding: Holding) -> None:
    run = await site.start(spec(), script(2, HELD_LIST))
    parts: list[LivePart] = []
    async for part in handle(site, run).stream():
        parts.append(part)
        holding.release()
    assert together(parts) == SAID
    kinds = [part.type for part in parts]
    assert (kinds[0], kinds[-1]) == ("call_started", "call_ended")
    assert kinds.count("text") > 1, "it was heard while it spoke"
    assert {part.run for part in parts} == {run}


@pytest.mark.long
@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["plain", "json"])
async def test_a_call_is_heard_on_the_command_line(
    site: Installation, holding: Holding, flags: tuple[str, ...]
) -> None:
    run = await site.start(spec(), script(2, HELD_LIST))
    watching = asyncio.create_task(printed(site, "watch", run, "--text", *flags))
    await eventually(lambda: watched(site, run))
    holding.release()
    code, output = await watching
    assert code == 0
    if not flags:
        # What is said comes in pieces, between which other news may stand on a busy machine.
        lines = output.split("\n")
        head = f"[{run} · iteration 2 · executor · executing · "
        began = next(place for place, line in enumerate(lines) if line.startswith(head))
        assert lines[began + 1][:5] == SAID[:5]
        assert SAID in lines
        return
    *told, result = [json.loads(line) for line in output.splitlines()]
    assert together([LivePart.model_validate(part) for part in told]) == SAID
    assert result["output"] == SAID


@pytest.mark.slow
async def test_a_call_whose_worker_was_killed_begins_anew(bare: Installation) -> None:
    async with bare.worker_process() as process:
        run = await bare.start(spec(), script(15))
        parts: list[LivePart] = []
        async for part in handle(bare, run).stream():
            first = not any(one.text for one in parts)
            parts.append(part)
            if part.text and first:
                await process.kill()
                await process.start()
        result = await bare.gateway.result(run)
    assert result.output == SAID
    assert "call_restarted" in [part.type for part in parts]
    assert together(parts) == SAID
