"""R22: ten thousand iterations lose nothing, and the last ones cost what the first ones cost."""

from itertools import pairwise
from pathlib import Path
from statistics import median

import psutil
import pytest
from installation import Installation, WorkerProcess, installation
from invariants import MOST_BYTES, MOST_EVENTS, counted_once, executions, nothing_lost
from server_process import server_process
from waiting import eventually

from perdure.domain.result import IterationRecord

SUPPORT = Path(__file__).parents[1] / "support"
ITERATIONS = 10_000
LEAST_EXECUTIONS = 30
SAMPLED = (1_000, 5_000, ITERATIONS)
# The machine has other work too: what grows with the length of the run grows tenfold here.
SLOWER_AT_MOST = 1.5
# The window fills every few hundred turns, so that the conversation is compacted all along.
SCRIPT = {
    "window": 8_000,
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
    "budget": {"iterations": ITERATIONS, "tokens": None, "active_time": None},
    "agent": {"max_iterations": ITERATIONS},
    "tools": {"repeat_exempt": ["probe.echo"]},
}


async def _memory(site: Installation, worker: WorkerProcess, run: str, turn: int) -> int:
    """The worker's resident memory when a turn is reached, or just before the end."""

    async def reached() -> bool:
        return (await site.status(run)).iteration >= min(turn, ITERATIONS - 10)

    await eventually(reached, seconds=2_400, every=0.5)
    return psutil.Process(worker.pid).memory_info().rss


def _typical_turn(records: list[IterationRecord], first: int, last: int) -> float:
    times = (record.started_at for record in records[first:last])
    began = [time.timestamp() for time in times if time is not None]
    return median(later - earlier for earlier, later in pairwise(began))


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_r22_ten_thousand_iterations(tmp_path: Path) -> None:
    async with (
        server_process(tmp_path) as server,
        installation(tmp_path / "home", server.address) as site,
        site.worker_process(PERDURE_PLUGINS="probe_tools", PYTHONPATH=str(SUPPORT)) as worker,
    ):
        run = await site.start(TASK, SCRIPT)
        memory = [await _memory(site, worker, run, turn) for turn in SAMPLED]
        result = await site.gateway.result(run)
        records = await site.records(run)
        rows = await site.parts.stores.journal.rows(run)
        played = await site.parts.stores.records.script_uses(run, "")
        histories = await executions(site, run)
        await nothing_lost(site, result)
    assert (result.outcome, result.iteration_count) == ("accepted", ITERATIONS)
    # Three books agree: what the model played, what the journal holds, what the run says.
    assert played == {0: ITERATIONS - 1, 1: 1}
    assert len({row.key for row in rows}) == len(rows) == ITERATIONS
    assert result.spend.model_calls == ITERATIONS
    assert result.spend.tool_calls == ITERATIONS - 1
    counted_once(result, rows, None, kills=0)
    assert len(histories) >= LEAST_EXECUTIONS
    assert max(len(history.events) for history in histories) <= MOST_EVENTS
    sizes = [sum(event.ByteSize() for event in history.events) for history in histories]
    assert max(sizes) <= MOST_BYTES
    print("memory in MB:", [size >> 20 for size in memory])
    assert all(abs(size - memory[0]) <= 0.1 * memory[0] for size in memory), memory
    early, late = _typical_turn(records, 500, 1_500), _typical_turn(records, -1_000, -1)
    print(f"ms a turn: {early * 1000:.1f} early, {late * 1000:.1f} late")
    assert late <= SLOWER_AT_MOST * early, (early, late)
