"""What a command passes of the product, counted in a process of its own."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
import yaml
from installation import Installation

TRACED = Path(__file__).parent / "traced.py"
SLOW = {"replies": [{"text": "done", "delay_s": 60}]}
TASK = {"kind": "agent", "goal": "Say done."}
MOST_FILES_OF_PAUSE = 40
OPENED = ("Settings.found", "open_stores", "build_parts", "Gateway.__init__", "connect")
# The command line itself, and what reads its settings, is the same for each command.
DOOR = ("/__main__", "/cli_wiring", "/interfaces/cli/", "/adapters/settings/", "/adapters/logging/")


async def calls(site: Installation, *words: str) -> dict[str, int]:
    """The functions that a command calls, by file, with how often."""
    own = site.settings.as_environment()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(TRACED), *words),
        env={**os.environ, **own, "TEMPORAL_ADDRESS": site.address},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, trouble = (text.decode() for text in await process.communicate())
    assert process.returncode == 0, told + trouble
    return json.loads(trouble.splitlines()[-1])


@pytest.mark.long
async def test_pausing_builds_only_what_it_uses(site: Installation) -> None:
    run = await site.start(TASK, SLOW)
    places = await calls(site, "pause", run)
    passed = {place.partition(":")[0] for place in places if not place.startswith(DOOR)}
    assert len(passed) <= MOST_FILES_OF_PAUSE, "\n".join(sorted(passed))


@pytest.mark.long
async def test_a_run_opens_the_installation_once(site: Installation, tmp_path: Path) -> None:
    model = await site.script({"replies": [{"text": "done"}]})
    task = tmp_path / "task.yaml"
    task.write_text(yaml.safe_dump({**TASK, "models": {"executor": model}}))
    passed = await calls(site, "run", str(task))
    found = {place.partition(":")[2]: count for place, count in passed.items()}
    assert {name: found[name] for name in OPENED} == dict.fromkeys(OPENED, 1)
