"""The page on Temporal Cloud counts and names what there is."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from installation import Installation

from perdure.domain.foundation.temporal_cloud import adding_commands

SPEC = {"kind": "agent", "goal": "say", "learn": False}
PAGE = Path(__file__).parents[2] / "docs" / "temporal-cloud.md"
TEMPORAL = Path(sys.executable).parent


async def _actions(bare: Installation, run: str) -> dict[str, int]:
    """What the command of the page on Temporal Cloud counts for a run."""
    (line,) = re.findall(r"^\$ (temporal .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert "bottle-1" in line
    process = await asyncio.create_subprocess_shell(
        line.replace("bottle-1", run),
        env={
            **os.environ,
            "PATH": f"{TEMPORAL}{os.pathsep}{os.environ['PATH']}",
            "TEMPORAL_ADDRESS": bare.address,
        },
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    rows = (row.split() for row in said.decode().splitlines())
    return {name.removeprefix("EVENT_TYPE_"): int(count) for count, name in rows}


@pytest.mark.parametrize("turns", [1, 3, 21])
async def test_the_actions_of_a_run_are_those_of_the_page_on_temporal_cloud(
    bare: Installation, turns: int
) -> None:
    calls = [
        {"tool_calls": [{"name": "probe.page", "arguments": {"number": number}}]}
        for number in range(1, turns)
    ]
    async with bare.worker(plugins=("probe_tools",)):
        run = await bare.start(SPEC, {"replies": [*calls, {"text": "done"}]})
        assert (await bare.gateway.result(run)).iteration_count == turns
    told = await _actions(bare, run)
    assert told["ACTIVITY_TASK_SCHEDULED"] == 4 + 2 * (turns - 1)
    assert sum(told.values()) == 8 + 2 * (turns - 1) + turns // 10


async def test_the_page_on_temporal_cloud_names_the_search_attributes_as_the_error_does() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").replace("\\\n", " ").split())
    command = adding_commands("NAME.ACCOUNT").split("`")[3]
    assert command.startswith("tcld namespace search-attributes add")
    assert command in page
