"""The `ended` of a run whose history the server dropped, as followers that come again see it."""

from datetime import UTC, datetime
from typing import Any

from perdure.domain.budget.envelope import BudgetLimits
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


async def told(records: MemoryRecords, *, since: int) -> list[Event]:
    given: dict[str, Any] = {"server": Server(), "records": records, "nudges": Nudges()}
    follower = Follower(
        RUN, waits=Waits(), now=lambda: NOW, known=nothing, unserved=nothing, **given
    )
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
