"""R22: ten thousand iterations cost no more at the end than at the beginning."""

import os
from pathlib import Path

import psutil
import pytest
from installation import Installation, eventually, installation
from invariants import MOST_BYTES, MOST_EVENTS, executions, nothing_lost
from server_process import server_process

SUPPORT = Path(__file__).parents[1] / "support"
ITERATIONS = int(os.environ.get("R22", 10_000))
LEAST_EXECUTIONS = 30
# A window that fills every few hundred turns, so that compaction has to act all along.
SCRIPT = {
    "window": 30_000,
    "replies": [
        {
            "tool_calls": [{"name": "probe.echo", "arguments": {"text": "on"}}],
            "times": ITERATIONS - 1,
        },
        {"text": "All done."},
    ],
}
TASK = {
    "kind": "agent",
    "goal": "go on",
    "budget": {"iterations": 10_000, "tokens": None, "active_time": None, "model_calls": None},
    "agent": {"max_iterations": 10_000},
    "tools": {"repeat_exempt": ["probe.echo"]},
}


async def _passed(site: Installation, run: str, turn: int) -> None:
    async def reached() -> bool:
        return len(await site.parts.stores.records.records(run)) >= turn

    await eventually(reached, seconds=1_500, every=1.0)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_r22_ten_thousand_iterations(tmp_path: Path) -> None:
    sizes: dict[int, int] = {}
    async with (
        server_process(tmp_path) as server,
        installation(tmp_path / "home", server.address) as site,
        site.worker_process(
            PERDURE_PLUGINS="probe_tools", PYTHONPATH=str(SUPPORT), PERDURE_LOG_LEVEL="warning"
        ) as process,
    ):
        run = await site.start(TASK, SCRIPT)
        for turn in (500, 1_000, 2_000, 5_000, ITERATIONS):
            await _passed(site, run, min(turn, ITERATIONS - 5))
            sizes[turn] = psutil.Process(process.pid).memory_info().rss
            print(turn, sizes[turn] >> 20, "MB", flush=True)
        result = await site.gateway.result(run)
        records = await site.records(run)
        for first in range(0, ITERATIONS - 1, 500):
            part = records[first : first + 500]
            print(first, (part[-1].started_at - part[0].started_at) / (len(part) - 1), flush=True)
        histories = await executions(site, run)
        print(len(histories), max(len(one.events) for one in histories))
