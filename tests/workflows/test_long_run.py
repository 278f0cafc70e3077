"""A long run costs the same per turn at its end as at its beginning, and rolls over in time."""

import socket
from dataclasses import dataclass

import pytest
from installation import Installation
from temporalio.api.history.v1 import HistoryEvent

EVENTS_PER_TURN = 13
BYTES_PER_TURN = 4 * 1024
MOST_EVENTS = 4_096
MOST_BYTES = 4 * 1024 * 1024
# Opening and ending a run are no turns.
FIXED_EVENTS = 40
FIXED_BYTES = 8 * 1024
# A worker's identity holds the name of its host: it stands in the answers to each task of a turn.
HOST_BYTES = EVENTS_PER_TURN * len(socket.gethostname())


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a run, as the server measures it."""

    events: tuple[HistoryEvent, ...]
    length: int
    size: int


async def executions(site: Installation, run: str) -> list[Execution]:
    """Every execution of a run, oldest first."""
    found: list[Execution] = []
    newest = await site.handle(run).describe()
    run_id = newest.raw_description.workflow_execution_info.first_run_id
    while run_id:
        handle = site.client.get_workflow_handle(run, run_id=run_id)
        described = (await handle.describe()).raw_description.workflow_execution_info
        events = tuple((await handle.fetch_history()).events)
        found.append(Execution(events, described.history_length, described.history_size_bytes))
        last = events[-1].workflow_execution_continued_as_new_event_attributes
        run_id = last.new_execution_run_id
    return found


def bytes_of_turns(events: list[HistoryEvent]) -> list[int]:
    """The bytes of history from each model call to the next."""
    turns: list[int] = []
    for event in events:
        scheduled = event.activity_task_scheduled_event_attributes
        if scheduled.activity_type.name == "call_model":
            turns.append(0)
        if turns:
            turns[-1] += event.ByteSize()
    return turns


def pages(turns: int) -> dict[str, object]:
    calls = [
        {"tool_calls": [{"name": "probe.page", "arguments": {"number": number}}]}
        for number in range(1, turns + 1)
    ]
    return {"replies": [*calls, {"text": "All pages read."}]}


TASK = {
    "kind": "agent",
    "goal": "read all pages",
    "budget": {"tokens": None, "active_time": None},
    "agent": {"max_iterations": 1_500},
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("turns", "rolls"),
    [
        (120, 0),
        # Without a cache of workflows each turn replays all before it.
        pytest.param(1_000, 5, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)]),
    ],
)
async def test_a_turn_costs_the_same_however_long_the_run(
    bare: Installation, turns: int, rolls: int
) -> None:
    async with bare.worker(plugins=("probe_tools",)):
        run = await bare.start(TASK, pages(turns))
        result = await bare.gateway.result(run)
    assert (result.outcome, result.iteration_count) == ("accepted", turns + 1)
    assert result.tools_used == {"probe.page": turns}
    chain = await executions(bare, run)
    assert len(chain) - 1 >= rolls
    assert max(execution.length for execution in chain) <= MOST_EVENTS
    assert max(execution.size for execution in chain) <= MOST_BYTES
    assert sum(execution.length for execution in chain) - FIXED_EVENTS * len(chain) <= (
        EVENTS_PER_TURN * turns
    )
    assert sum(execution.size for execution in chain) - FIXED_BYTES * len(chain) <= (
        (BYTES_PER_TURN + HOST_BYTES) * turns
    )
    costs = bytes_of_turns([event for execution in chain for event in execution.events])
    early, late = _typical(costs[9:30]), _typical(costs[-130:-30])
    assert abs(late - early) <= 0.02 * early


def _typical(costs: list[int]) -> int:
    # A turn at which the run rolls over, or publishes, is no typical one.
    return sorted(costs)[len(costs) // 2]
