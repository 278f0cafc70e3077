"""Whether a run begins later is told by the server's facts, not by the clock of the host."""

from datetime import UTC, datetime, timedelta

import pytest

from perdure.gateway.temporal_gateway import ExecutionInfo
from perdure.gateway.visibility import delay_note

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


def _look(*, delay: timedelta, length: int) -> ExecutionInfo:
    return ExecutionInfo(
        id="run",
        execution="one",
        kind="agent",
        ending=None,
        history_length=length,
        started_at=AT,
        closed_at=None,
        facts={},
        memo={},
        begins_at=AT + delay,
    )


@pytest.mark.parametrize(
    ("delay", "length", "clock", "later"),
    [
        (timedelta(0), 90, -2 * HOUR, False),
        (timedelta(0), 1, -2 * HOUR, False),
        (timedelta(0), 0, -2 * HOUR, False),
        (HOUR, 1, timedelta(0), True),
        (HOUR, 1, 2 * HOUR, True),
        (HOUR, 2, timedelta(0), False),
        (HOUR, 0, timedelta(0), True),
        (HOUR, 0, HOUR, False),
    ],
    ids=[
        "at work, host behind",
        "just started, host behind",
        "listed, host behind",
        "delayed",
        "delayed, host ahead",
        "delayed, begun early by a message",
        "delayed, listed",
        "delayed, listed when it began",
    ],
)
def test_a_run_begins_later_by_the_servers_facts(
    delay: timedelta, length: int, clock: timedelta, later: bool
) -> None:
    told = delay_note(_look(delay=delay, length=length), AT + clock)
    assert (told is not None) == later
