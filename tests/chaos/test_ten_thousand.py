"""R22: ten thousand iterations lose nothing, and the last ones cost what the first ones cost."""

from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from installation import Installation, WorkerProcess, installation
from invariants import MOST_BYTES, MOST_EVENTS, counted_once, executions, nothing_lost
from server_process import server_process
from waiting import eventually

SUPPORT = Path(__file__).parents[1] / "support"
ITERATIONS = 10_000
LEAST_EXECUTIONS = 30
SAMPLED = (1_000, 2_000, 5_000, ITERATIONS - 1_000, ITERATIONS)
# Processor time, as the machine has other work too. What grows with the length of the run would
# grow sixfold here.
DEARER_AT_MOST = 1.5
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


@dataclass(frozen=True)
class Sample:
    """The worker when so many turns were made: processor time so far, and resident memory."""

    turn: int
    cpu_s: float
    memory: int


async def _sample(site: Installation, worker: WorkerProcess, run: str, turn: int) -> Sample:
    """The worker when a turn is reached, or just before the end."""

    now = 0

    async def reached() -> bool:
        nonlocal now
        now = (await site.status(run)).iteration
        return now >= min(turn, ITERATIONS - 10)

    await eventually(reached, seconds=2_400, every=0.5)
    process = psutil.Process(worker.pid)
    spent = process.cpu_times()
    return Sample(now, spent.user + spent.system, process.memory_info().rss)


def _cpu_of_a_turn(earlier: Sample, later: Sample) -> float:
    return (later.cpu_s - earlier.cpu_s) / (later.turn - earlier.turn)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_r22_ten_thousand_iterations(tmp_path: Path) -> None:
    async with (
        server_process(tmp_path) as server,
        installation(tmp_path / "home", server.address) as site,
        site.worker_process(PERDURE_PLUGINS="probe_tools", PYTHONPATH=str(SUPPORT)) as worker,
    ):
        run = await site.start(TASK, SCRIPT)
        samples = [await _sample(site, worker, run, turn) for turn in SAMPLED]
        result = await site.gateway.result(run)
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
    counted_once(result, rows, None)
    assert len(histories) >= LEAST_EXECUTIONS
    assert max(len(history.events) for history in histories) <= MOST_EVENTS
    sizes = [sum(event.ByteSize() for event in history.events) for history in histories]
    assert max(sizes) <= MOST_BYTES
    memory = [sample.memory for sample in samples]
    print("memory in MB:", [size >> 20 for size in memory])
    assert all(abs(size - memory[0]) <= 0.1 * memory[0] for size in memory), memory
    early, late = _cpu_of_a_turn(*samples[:2]), _cpu_of_a_turn(*samples[-2:])
    print(f"ms of processor time a turn: {early * 1000:.1f} early, {late * 1000:.1f} late")
    assert late <= DEARER_AT_MOST * early, (early, late)
