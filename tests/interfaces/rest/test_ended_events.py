"""What a client that comes again is sent of a run that has ended."""

from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Response

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.run.events import Event
from perdure.domain.run.status import BudgetStatus, RunStatus
from perdure.interfaces.rest import events
from perdure.interfaces.rest.events import Feed
from tests.gateway.tiny import row

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN, LAST = "agent-a-1", 4
STATUS = RunStatus(
    id=RUN,
    kind="agent",
    goal="x",
    lifecycle="completed",
    phase="ended",
    budget=BudgetStatus(limits=BudgetLimits()),
    last_event=LAST,
    source="store",
)


async def sent(
    monkeypatch: pytest.MonkeyPatch, *, last: int, told: RunStatus = STATUS
) -> list[bytes] | None:
    """The events behind a number; None if the answer is that there are none.

    Args:
        monkeypatch: puts the feed of the run in the place of its stream.
        last: the `last-event-id`.
        told: the status that the run stored last.
    """

    async def known(run: str) -> Any:
        return row(run, status=told.model_dump_json(), ended_at=NOW, result="{}")

    async def status(run: str) -> RunStatus:
        return STATUS

    def stream_of(
        request: object, caller: object, run: str, parts: Callable[[Feed], AsyncGenerator[bytes]]
    ) -> AsyncGenerator[bytes]:
        return parts(feed)

    monkeypatch.setattr(events, "stream_of", stream_of)
    feed = Feed(RUN, over=True)
    for seq in range(1, LAST + 1):
        name = "ended" if seq == LAST else "iteration_started"
        feed.take(Event(seq=seq, at=NOW, run=RUN, iteration=0, type=name))
    services = SimpleNamespace(
        gateway=SimpleNamespace(status=status), records=SimpleNamespace(run=known)
    )
    site: Any = SimpleNamespace(services=services)
    request: Any = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(hide=str)))
    caller: Any = None
    answer: Any = await events.events(request, site, caller, RUN, f"{last}")
    if isinstance(answer, Response):
        assert answer.status_code == 204
        return None
    return [part async for part in answer]


async def test_it_goes_on_behind_the_number_and_ends_with_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (ended,) = await sent(monkeypatch, last=LAST - 1) or []
    assert b"event: ended" in ended
    assert await sent(monkeypatch, last=LAST) is None


async def test_a_number_that_it_never_had_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was reset while the client was away, and ended with fewer events."""
    assert len(await sent(monkeypatch, last=LAST + 9) or []) == LAST


async def test_the_end_of_a_run_that_did_not_tell_it_is_not_sent_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a run that was terminated, the store has an older number than clients were sent."""
    stands = STATUS.model_copy(update={"phase": "working"})
    assert await sent(monkeypatch, last=LAST + 1, told=stands) is None
