"""Following a run: poll the server cheaply, and query the worker only after a change."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from time import monotonic

from pydantic import JsonValue

from perdure.domain.foundation.errors import NoReadyWorker, NotFound, ServiceUnavailable, StoreError
from perdure.domain.ports import RecordStore
from perdure.domain.run.events import Event
from perdure.domain.run.messages import EventsQuery
from perdure.gateway.diagnostics import STORE, STORE_BACK
from perdure.gateway.error_mapping import may_return, unknown_run
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.namespaces import elsewhere, other_namespace_error
from perdure.gateway.nudges import Nudges
from perdure.gateway.stored_status import may_begin, stored_status, torn_status
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import Waits

# Shorter than the ten seconds for which the client retries a call by itself.
LOOK_S = 5.0
# For so long, a server that is away or refuses is not worth a word: it may be starting again.
SHORT_S = 6.0
KEPT = 1_000  # newest events that are remembered, to find where a reset run differs


class Pace:
    """The time between two polls: short after news, longer while nothing happens."""

    def __init__(self, *, first: float, last: float) -> None:
        self._first, self._last = first, last
        self.seconds = first

    def news(self) -> None:
        """Poll again soon."""
        self.seconds = self._first

    def quiet(self) -> None:
        """Wait longer before the next poll."""
        self.seconds = min(self._last, self.seconds * 1.5)


class Follower:
    """Reads the events of one run from a sequence number on."""

    def __init__(
        self,
        run: str,
        *,
        server: TemporalGateway,
        records: RecordStore,
        waits: Waits,
        now: Callable[[], datetime],
        known: Callable[[str], Awaitable[str]],
        unserved: Callable[[ExecutionInfo], Awaitable[str]],
        nudges: Nudges,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        self._run = run
        self._known = known
        self._unserved = unserved
        self._nudges = nudges
        self._lying: str | None = None
        self._server = server
        self._records = records
        self._waits = waits
        self._now = now
        self._on_trouble = on_trouble
        self._troubled: str | None = None
        self._told_sealed = False
        self._away_since: float | None = None
        self._told_away = False
        self._pace = Pace(first=waits.poll_first, last=waits.poll_last)
        self._seen: tuple[object, ...] | None = None
        self._execution: str | None = None
        self._told: dict[int, datetime] = {}

    async def events(self, since: int) -> AsyncGenerator[Event]:
        """Events after `since`, as they come; the last one is `ended`.

        Raises:
            ServiceUnavailable: the server was away for too long; the message says what the store
                knows of the run.
        """
        while True:
            try:
                look = await self._look()
                self._there()
            except ServiceUnavailable as error:
                await self._bear(error)
                self._pace.quiet()
                await self._sleep()
                continue
            self._tell_trouble(look)
            await self._tell_unserved(look)
            fresh, since = await self._fresh(look, since)
            for event in fresh:
                since = event.seq
                self._remember(event)
                if event.type == "ended":
                    await self._until_closed(look)
                yield event
                if event.type == "ended":
                    return
            if look is None and await self._begins():
                await self._sleep()
                continue
            if look is None or not look.open:
                yield await self._last_word(look, since)
                return
            await self._sleep()

    async def _bear(self, error: ServiceUnavailable) -> None:
        """Raise an error of the server if it lasts too long; say so once if it lasts for a while.

        Raises:
            ServiceUnavailable: it lasts too long, or the run has ended by what the store knows.
        """
        now = monotonic()
        self._away_since = self._away_since or now
        lasts, most = now - self._away_since, self._waits.outage
        if not may_return(error):
            most = min(most, SHORT_S)
        # The store may know that the run has ended, although the server is away.
        if lasts > most or await self._is_over():
            raise await self._given_up(error) from error
        if lasts > SHORT_S and not self._told_away and self._on_trouble is not None:
            self._told_away = True
            self._on_trouble(f"{error.message} It is awaited for up to {most:.0f} s.")

    def _there(self) -> None:
        """The server has answered."""
        if self._told_away and self._on_trouble is not None:
            self._on_trouble("The Temporal server answers again.")
        self._away_since, self._told_away = None, False

    async def _until_closed(self, look: ExecutionInfo | None) -> None:
        """Wait until the execution has closed, and keep reporting problems.

        After the `ended` event, a client asks for the result, which is stored only then.
        """
        # Another execution is a retry or a reset, whose end would be another one.
        while look is not None and look.open and look.execution == self._execution:
            await self._sleep()
            try:
                look = await self._look()
            except ServiceUnavailable:
                return  # the request for the result will report it
            self._tell_trouble(look)
            self._pace.quiet()

    async def _look(self) -> ExecutionInfo | None:
        """Ask the server about the run, with a time limit."""
        try:
            async with asyncio.timeout(LOOK_S):
                return await self._server.look(self._run)
        except TimeoutError as error:
            raise ServiceUnavailable(
                f"The Temporal server did not answer within {LOOK_S:g} s.",
                cure="Start it with `perdure up --detach`, or correct TEMPORAL_ADDRESS.",
            ) from error

    async def _given_up(self, error: ServiceUnavailable) -> ServiceUnavailable:
        known = await self._known(self._run)
        return ServiceUnavailable(f"{error.message}{known}", cure=error.cure)

    async def _fresh(self, look: ExecutionInfo | None, since: int) -> tuple[list[Event], int]:
        """The events that were not yielded yet, and the number after which they begin."""
        # A describe call is cheap and needs no worker. A query needs one, which replays the run if
        # it is not in its cache.
        mark = _mark(look)
        if look is None or mark == self._seen:
            self._pace.quiet()
            return [], since
        # Event numbers go on after continue-as-new, but repeat after a reset. So read all events
        # of another execution.
        other = self._execution not in {None, look.execution}
        try:
            events = await self._server.query(
                self._run, "events", list[Event], given=EventsQuery(since=0 if other else since)
            )
        except (NoReadyWorker, ServiceUnavailable, NotFound):
            # The worker is away, or the history was just deleted; the next look shows which.
            self._pace.quiet()
            return [], since
        except StoreError as error:
            # This process cannot decrypt the answer. The end of the run is still in the store.
            self._tell_sealed(error)
            self._pace.quiet()
            return [], since
        # Only after the query, and as of the look before it: a query that failed is made again, and
        # events that came in between make another mark.
        self._seen, self._execution = mark, look.execution
        if other and events:
            since = self._common(events, since)
        fresh = [event for event in events if event.seq > since]
        if fresh:
            self._pace.news()
        else:
            self._pace.quiet()
        return fresh, since

    def _common(self, events: list[Event], since: int) -> int:
        """The last event number up to which a reset run agrees with the yielded events."""
        anew = [event.seq for event in events if self._told.get(event.seq, event.at) != event.at]
        return min([since, events[-1].seq, *(seq - 1 for seq in anew)])

    def _remember(self, event: Event) -> None:
        self._told[event.seq] = event.at
        self._told.pop(event.seq - KEPT, None)

    def _tell_trouble(self, look: ExecutionInfo | None) -> None:
        trouble = look.trouble if look is not None else None
        mark = trouble.mark if trouble is not None else None
        before, self._troubled = self._troubled, mark
        if self._on_trouble is None or mark == before:
            return
        if trouble is not None:
            self._on_trouble(trouble.text)
        elif before == STORE:
            self._on_trouble(STORE_BACK)

    async def _tell_unserved(self, look: ExecutionInfo | None) -> None:
        """Report once for each task that no worker takes it, unless there is another problem."""
        told = await self._unserved(look) if look and look.trouble is None else ""
        lying = look.unfetched if look is not None and told else None
        mark = f"{lying.queue} {lying.what}" if lying is not None else None
        before, self._lying = self._lying, mark
        if self._on_trouble is not None and mark not in {None, before}:
            self._on_trouble(told)

    def _tell_sealed(self, error: StoreError) -> None:
        if self._on_trouble is not None and not self._told_sealed:
            self._on_trouble(str(error))
        self._told_sealed = True

    async def _last_word(self, look: ExecutionInfo | None, since: int) -> Event:
        """An `ended` event for a run whose own event can no longer be read."""
        row = await self._records.run(self._run)
        if row is None and look is None:
            raise unknown_run(self._run)
        if row is not None and look is None and (away := await elsewhere(self._server, row)):
            raise other_namespace_error(self._run, away)
        data: dict[str, JsonValue] = {}
        number = since + 1
        if row is not None:
            status = stored_status(row)
            # Where its events are gone: who is behind an earlier one would be told of its end again
            # and again.
            number = max(number, status.last_event)
            status = status if status.phase == "ended" else torn_status(status, look)
            data = {
                "lifecycle": status.lifecycle,
                "outcome": status.outcome,
                "reason": status.reason,
                "explanation": status.explanation,
            }
        elif look is not None:
            data = {"ending": look.ending}
        at = (row.ended_at if row else None) or (look.closed_at if look else None) or self._now()
        return Event(seq=number, at=at, run=self._run, iteration=0, type="ended", data=data)

    async def _begins(self) -> bool:
        """Whether the server, which does not know the run, may still get to know it."""
        if self._execution is not None:
            return False  # it knew the run before, which is gone
        row = await self._records.run(self._run)
        if row is None or not may_begin(row, self._now()):
            return False
        return await elsewhere(self._server, row) is None

    async def _is_over(self) -> bool:
        row = await self._records.run(self._run)
        return row is None or row.ended_at is not None

    async def _sleep(self) -> None:
        if await self._nudges.wait_for_news(self._run, self._pace.seconds):
            self._pace.news()


def _mark(look: ExecutionInfo | None) -> tuple[object, ...] | None:
    if look is None:
        return None
    return (look.execution, look.history_length, look.ending, look.text("PerdureLifecycle"))
