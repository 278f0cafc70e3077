"""The `ended` of a run whose history the server dropped, as followers that come again see it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.run.events import Event
from perdure.domain.run.status import BudgetStatus, RunStatus
from perdure.gateway.event_follower import Follower
from perdure.gateway.nudges import Nudges
from perdure.gateway.types import Waits
from tests.gateway.memory_stores import MemoryRecords
from tests.gateway.tiny import row

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN, LAST = "agent-old-1", 37


class Server:
    async def look(self, run: str) -> None:
        return None


async def nothing(_: object) -> str:
    return ""


async def told(
    records: MemoryRecords, *, since: int, now: Callable[[], datetime] = lambda: NOW
) -> list[Event]:
    given: dict[str, Any] = {"server": Server(), "records": records, "nudges": Nudges()}
    waits = Waits(poll_first=0.01, poll_last=0.02)
    follower = Follower(RUN, waits=waits, now=now, known=nothing, unserved=nothing, **given)
    return [event async for event in follower.events(since)]


async def test_the_end_has_the_number_behind_which_nothing_comes() -> None:
    """With an earlier one, an `EventSource` would ask again and again, and never be told 204."""
    status = RunStatus(
        id=RUN,
        kind="agent",
        goal="x",
        lifecycle="completed",
        phase="ended",
        budget=BudgetStatus(limits=BudgetLimits()),
        last_event=LAST,
    )
    records = MemoryRecords()
    await records.put_run(row(RUN, status=status.model_dump_json(), ended_at=NOW))
    for since, number in ((0, LAST), (LAST - 1, LAST), (LAST, LAST + 1)):
        (event,) = await told(records, since=since)
        assert (event.type, event.seq) == ("ended", number)


async def test_a_run_that_never_gets_to_the_server_ends_when_its_row_is_old() -> None:
    looks = 0

    def now() -> datetime:
        nonlocal looks
        looks += 1
        return NOW + timedelta(seconds=20 * looks)

    records = MemoryRecords()
    await records.put_run(row(RUN))
    (event,) = await told(records, since=0, now=now)
    assert (event.type, event.data["lifecycle"]) == ("ended", "failed")
    assert "never started" in str(event.data["explanation"])
    assert looks >= 3
