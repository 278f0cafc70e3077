"""A gateway in memory: runs as plain values, verbs that are noted."""

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.journal import AttemptRow
from perdure.domain.foundation.errors import NotAllowed, NotFound, PerdureError, ServiceUnavailable
from perdure.domain.foundation.names import run_id
from perdure.domain.memory.patterns import MineReport
from perdure.domain.retention.erasure import Tombstone
from perdure.domain.run.cost_report import CostReport, add_up
from perdure.domain.run.events import Event
from perdure.domain.run.figures import ServerLoad
from perdure.domain.run.messages import AnyMessage, Receipt
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.domain.specs import Spec
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.types import (
    RUNS_OF_A_PAGE,
    BulkReport,
    FailingRuns,
    OpenGate,
    OpenGates,
    QueueState,
    Reach,
    Repaired,
    Retained,
    RunFilter,
    RunPage,
    RunRow,
    UpkeepOutcome,
    UpkeepSchedule,
    Wanted,
)
from tests.interfaces.cli.samples import RECORDS, RUN, event, result, status


@dataclass
class MemoryGateway:
    """Runs as plain values; verbs are noted."""

    statuses: dict[str, RunStatus] = field(default_factory=lambda: {RUN: status()})
    results: dict[str, RunResult] = field(default_factory=lambda: {RUN: result()})
    iterations: tuple[IterationRecord, ...] = RECORDS
    happened: list[Event] = field(
        default_factory=lambda: [
            event(1, "run_started", kind="refine"),
            event(2, "iteration_completed", iteration=1, score=0.73, decision="continue"),
            event(3, "iteration_completed", iteration=2, score=0.89, decision="accept"),
            event(4, "ended", iteration=2, outcome="accepted", reason="quality_met"),
        ]
    )
    started: list[Spec] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    sent: list[tuple[str, AnyMessage]] = field(default_factory=list)
    refusals: dict[str, PerdureError] = field(default_factory=dict)
    start_error: PerdureError | None = None
    check_error: PerdureError | None = None
    away: PerdureError | None = None
    follow_error: BaseException | None = None
    outages: int = 0
    signalled: signal.Signals | None = None
    trouble: str = ""
    unready: bool = False
    repeats: list[bool] = field(default_factory=list)
    unread: tuple[str, ...] = ()
    filters: list[RunFilter | None] = field(default_factory=list)
    bulk: BulkReport = field(
        default_factory=lambda: BulkReport(verb="pause", taken=(RUN,), note="seconds")
    )
    make_result: Callable[[Spec, int], RunResult] | None = None
    attempts: list[AttemptRow] = field(default_factory=list)
    schedule: UpkeepSchedule | None = None
    mined: MineReport = field(default_factory=lambda: MineReport(events=4, found=2, proposed=1))
    filled_in: Callable[[Spec], Spec] = field(default=lambda spec: spec)
    forkable: Spec | None = None
    forked: list[tuple[str, int]] = field(default_factory=list)

    async def start(
        self,
        spec: Spec,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
        wanted: Wanted | None = None,
    ) -> str:
        if self.start_error is not None:
            raise self.start_error
        self.started.append(spec)
        if self.make_result is not None:
            made = f"{RUN}-{len(self.started)}"
            self.results[made] = self.make_result(spec, len(self.started))
            self.statuses[made] = status(id=made)
            return made
        return run_id or RUN

    async def has_begun(self, run: str) -> bool:
        return run in self.statuses

    async def check(self, spec: Spec) -> Spec:
        if self.check_error is not None:
            raise self.check_error
        return self.filled_in(spec)

    async def default_model(self) -> str | None:
        return None

    async def fork_spec(self, run: str, iteration: int) -> Spec:
        if run in self.refusals:
            raise self.refusals[run]
        self.forked.append((run, iteration))
        return self.forkable or AgentSpec(kind="agent", goal="say it")

    async def fork(
        self,
        run: str,
        iteration: int,
        spec: Spec,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
        wanted: Wanted | None = None,
    ) -> str:
        return await self.start(spec, run_id=run_id, idempotency_key=idempotency_key)

    async def readiness(self, spec: Spec) -> Sequence[QueueState]:
        if self.away is not None:
            raise self.away
        cure = "Start one: perdure worker" if self.unready else ""
        return (QueueState(queue="q-loops", serves="loops", ready=not self.unready, cure=cure),)

    async def status(self, run: str) -> RunStatus:
        if run not in self.statuses:
            raise NotFound(f"There is no run {run}.")
        return self.statuses[run]

    async def result(self, run: str, *, wait: bool = True) -> RunResult:
        if run not in self.results:
            raise NotAllowed(f"The run {run} has not ended yet.", cure="Watch it.")
        return self.results[run]

    async def records(self, run: str) -> Sequence[IterationRecord]:
        return self.iterations

    async def costs(self, run: str | None = None) -> CostReport:
        return add_up([run or RUN], self.attempts)

    async def events(
        self, run: str, *, since: int = 0, on_trouble: Callable[[str], None] | None = None
    ) -> AsyncGenerator[Event]:
        if on_trouble is not None and self.trouble:
            on_trouble(self.trouble)
        for item in self.happened:
            if item.seq <= since:
                continue
            if self.outages and item.seq > 1:
                self.outages -= 1
                raise ServiceUnavailable("The server is away.")
            yield item
            if self.signalled is not None:
                signal.raise_signal(self.signalled)
                signal.raise_signal(self.signalled)
                await asyncio.Event().wait()
            if self.follow_error is not None:
                raise self.follow_error

    async def verb(self, run: str, message: AnyMessage) -> Receipt:
        if run in self.refusals:
            raise self.refusals[run]
        self.sent.append((run, message))
        return Receipt(verb=type(message).__name__.lower(), lifecycle="running")

    async def load(self) -> ServerLoad:
        return ServerLoad()

    async def failing(self, *, limit: int) -> FailingRuns:
        return FailingRuns()

    async def repair(self, run: str, *, repeat: bool = False) -> Repaired:
        self.statuses[run]  # an unknown run is a fault of the test
        self.repeats.append(repeat)
        return Repaired(run=run, event=9, sent_again=2, left_out=("pause 7",))

    async def verb_all(
        self,
        message: AnyMessage,
        *,
        kind: str | None = None,
        root: str | None = None,
        within: Reach | None = None,
    ) -> BulkReport:
        self.sent.append((f"all:{kind}", message))
        return self.bulk

    async def gates(self) -> OpenGates:
        found = [
            OpenGate(run=name, kind=item.kind, goal=item.goal, gate=gate)
            for name, item in self.statuses.items()
            for gate in item.gates
        ]
        return OpenGates(gates=tuple(found), unread=self.unread)

    async def count(self, wanted: RunFilter) -> int:
        return sum(wanted.status in (None, one.lifecycle) for one in self.statuses.values())

    async def delete(self, run: str) -> None:
        self.statuses.pop(run)

    async def expire(self, stones: Sequence[Tombstone], *, dry_run: bool = False) -> None:
        for stone in () if dry_run else stones:
            await self.delete(stone.run)

    async def list(self, wanted: RunFilter | None = None) -> RunPage:
        self.filters.append(wanted)
        rows = [
            RunRow(id=item.id, kind=item.kind, goal=item.goal, lifecycle=item.lifecycle)
            for item in self.statuses.values()
        ]
        wanted = wanted or RunFilter()
        first = int(wanted.cursor or 0)
        behind = first + min(wanted.limit, RUNS_OF_A_PAGE)
        cursor = str(behind) if behind < len(rows) else None
        return RunPage(runs=tuple(rows[first:behind]), cursor=cursor)

    async def resolve(self, name: str) -> str:
        if name == "@last":
            return next(iter(self.statuses))
        for run in self.statuses:
            if run.startswith(name):
                return run
        raise NotFound(f"There is no run {name}.", cure=f"Did you mean {RUN}?")

    def upkeep(self, duty: str) -> "MemoryGateway":
        del duty
        return self

    async def state(self) -> UpkeepSchedule | None:
        return self.schedule

    async def outcome(self) -> UpkeepOutcome:
        return UpkeepOutcome()

    async def schedule_every(self, interval: timedelta) -> UpkeepSchedule:
        self.schedule = UpkeepSchedule(id="s", every_s=interval.total_seconds())
        return self.schedule

    async def delete_schedule(self) -> bool:
        was, self.schedule = self.schedule, None
        return was is not None

    async def mine(self) -> MineReport:
        return self.mined

    def fresh_id(self, kind: str, goal: str) -> str:
        self.named.append(run_id(kind, goal, "fresh"))
        return RUN

    async def history_export(self, run: str) -> bytes:
        return b'{"events": []}'

    async def retained(self, runs: Collection[str] | None = None) -> AsyncIterator[Retained]:
        for found in ():
            yield found

    async def server_ahead(self) -> float | None:
        return None

    async def close_rows(
        self, *, before: datetime | None = None, runs: Collection[str] | None = None
    ) -> int:
        return 0

    def web_url(self, run: str) -> str | None:
        return f"http://127.0.0.1:8233/{run}"
