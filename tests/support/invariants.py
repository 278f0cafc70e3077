"""What holds at the end of every failure test: nothing lost, nothing counted twice, one ending.

Three independent books are compared: the provider's ledger (what was billed), the run's own figures
(what we say), and the history (what Temporal recorded).
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from installation import Installation
from provider import Line
from temporalio.api.enums.v1 import EventType, TimeoutType, WorkflowTaskFailedCause
from temporalio.client import WorkflowExecutionStatus, WorkflowHistory
from waiting import eventually

from perdure.domain.budget.journal import AttemptRow
from perdure.domain.evaluation.outcomes import lifecycle
from perdure.domain.llm.usage import Usage
from perdure.domain.run.result import RunResult
from perdure.operations.replay import replay

MOST_EVENTS = 4_096
WAITED = TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START
MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Injected:
    """What the test did on purpose, so that it is not taken for a fault.

    `unaccounted`: replies that are used although their provider never said what they took.
    `ahead`: some steps were made by `other_version`, whose extra field this one cannot write.
    """

    kills: int = 0
    unaccounted: int = 0
    failed_tasks: int = 0
    terminated: bool = False
    ahead: bool = False


async def executions(site: Installation, run: str) -> list[WorkflowHistory]:
    """The histories of all executions of a run, oldest first."""
    described = await site.handle(run).describe()
    following = described.raw_description.workflow_execution_info.first_run_id
    found: list[WorkflowHistory] = []
    while following:
        handle = site.client.get_workflow_handle(run, run_id=following)
        history = await handle.fetch_history()
        found.append(history)
        last = history.events[-1]
        following = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found


async def check(
    site: Installation,
    run: str,
    *,
    ledger: Sequence[Line] | None = None,
    effects: Path | None = None,
    injected: Injected = Injected(),
) -> RunResult:
    """Assert I1 to I9 on a run that has ended, and return its result."""
    result = await site.gateway.result(run)
    rows = await site.parts.stores.journal.rows(run)
    histories = await executions(site, run)
    await nothing_lost(site, result)
    counted_once(result, rows, ledger, unaccounted=injected.unaccounted)
    deduplicated(rows, ledger, kills=injected.kills)
    effects_once(effects, run)
    await one_ending(site, run, result)
    await control_in_order(site, run)
    healthy(histories, injected)
    await replays(site, histories, ahead=injected.ahead)
    await no_leftovers(site, run)
    return result


async def nothing_lost(site: Installation, result: RunResult) -> None:
    """I1: no gap in the iterations, and the best is the best."""
    records = await site.records(result.id)
    indexes = [record.index for record in records]
    assert indexes == list(range(1, len(indexes) + 1)), indexes
    assert len(records) == result.iteration_count
    scored = [record.score for record in records if record.score is not None]
    if scored and result.best is not None:
        assert result.best.score == max(scored), (result.best, scored)


def counted_once(
    result: RunResult,
    rows: Sequence[AttemptRow],
    ledger: Sequence[Line] | None,
    *,
    unaccounted: int = 0,
) -> None:
    """I2: the run's figures are the journal's, and the ledger differs by unconfirmed ones alone."""
    booked = sum((row.usage for row in rows), Usage())
    assert result.spend.tokens == booked.counted_tokens(), (result.spend, rows)
    assert not [row for row in rows if row.state == "started"], rows
    if ledger is None:
        return
    billed = Counter((line.input_tokens, line.output_tokens) for line in ledger if line.tokens)
    answered = [row for row in rows if row.state == "answered"]
    # Some were given up as lost, and answered after all: their estimate was reported and stays, and
    # nobody timed their end.
    told_nothing = [row for row in answered if row.unconfirmed and row.seconds]
    assert len(told_nothing) == unaccounted, answered
    for row in (row for row in answered if not row.unconfirmed):
        key = (row.usage.input_tokens, row.usage.output_tokens)
        assert billed[key], f"{row} was never billed"
        billed[key] -= 1
    unconfirmed = [row for row in rows if row.unconfirmed or row.state == "failed"]
    assert billed.total() <= len(unconfirmed), (ledger, rows)
    total = sum(line.tokens for line in ledger)
    whole = sum(row.usage.counted_tokens() for row in rows)
    if not any(row.state == "failed" for row in rows):
        assert total <= whole, f"billed {total}, booked {whole}: {rows}"


def deduplicated(rows: Sequence[AttemptRow], ledger: Sequence[Line] | None, *, kills: int) -> None:
    """I3: one request per call, except where a worker died or the provider failed."""
    answered = Counter(row.key for row in rows if row.state == "answered")
    assert all(count == 1 for count in answered.values()), answered
    if ledger is None:
        return
    failures = sum(1 for row in rows if row.state == "failed")
    calls = Counter(line.hash for line in ledger)
    repeats = sum(count - 1 for count in calls.values())
    lost = sum(1 for row in rows if row.state == "lost")
    assert repeats <= kills + failures + lost, (calls, rows)


def effects_once(effects: Path | None, run: str) -> None:
    """I4: what must not be done twice was not."""
    if effects is None or not effects.exists():
        return
    lines = [json.loads(row) for row in effects.read_text().splitlines()]
    once = Counter(line["key"] for line in lines if line["run"] == run and line["tool"] != "again")
    assert all(count == 1 for count in once.values()), once


async def one_ending(site: Installation, run: str, result: RunResult) -> None:
    """I5: server, store and result tell one ending."""
    status = await site.status(run)
    assert (status.outcome, status.reason) == (result.outcome, result.reason)
    assert status.lifecycle == lifecycle(result.outcome)
    assert status.blocked_on is None
    row = await site.parts.stores.records.run(run)
    assert row is not None
    assert (row.outcome, row.lifecycle) == (result.outcome, lifecycle(result.outcome))
    described = await site.handle(run).describe()
    wanted = {"failed": WorkflowExecutionStatus.FAILED}.get(
        lifecycle(result.outcome), WorkflowExecutionStatus.COMPLETED
    )
    assert described.status == wanted, described.status


async def control_in_order(site: Installation, run: str) -> None:
    """I6: the newest events follow each other without a gap, and the last is the end."""
    status = await site.status(run)
    numbers = [event.seq for event in status.events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers
    assert status.events[-1].type == "ended"


def healthy(histories: Sequence[WorkflowHistory], injected: Injected) -> None:
    """I7: no failed workflow task, and no execution above the caps.

    A task that waited too long in its worker's own queue was not even begun: the machine is busy.
    """
    bad = (EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT)
    # The server's ordinary ways: a signal that meets a roll sends the task back once, and a flood
    # of messages ends a task that a busy worker holds, as the server keeps a hundred meanwhile.
    ordinary = (
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
    )
    failed = [
        event
        for history in histories
        for event in history.events
        if event.event_type in bad
        and event.workflow_task_failed_event_attributes.cause not in ordinary
        and event.workflow_task_timed_out_event_attributes.timeout_type != WAITED
    ]
    # A killed worker may time out a task that it held, and the sticky queue of its successor.
    allowed = injected.failed_tasks + 3 * injected.kills
    assert len(failed) <= allowed, failed
    for history in histories:
        assert len(history.events) <= MOST_EVENTS
        assert sum(event.ByteSize() for event in history.events) <= MOST_BYTES


async def replays(
    site: Installation, histories: Sequence[WorkflowHistory], *, ahead: bool = False
) -> None:
    """I8: the current code still makes the same decisions."""
    named = {f"{number}": history.to_json().encode() for number, history in enumerate(histories)}
    async for replayed in replay(named, site.parts.stores.blobs):
        foreign = ahead and "novelty" in (replayed.problem or "")
        assert replayed.problem is None or foreign, replayed


async def no_leftovers(site: Installation, run: str) -> None:
    """I9: nothing is open any more."""
    described = await site.handle(run).describe()
    assert not described.raw_description.pending_activities
    assert not described.raw_description.pending_children
    live = site.parts.stores.live()

    async def forgotten() -> bool:
        return not await live.below(run)

    # People who watch see the end of the last call for a moment.
    await eventually(forgotten)
