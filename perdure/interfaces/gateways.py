"""Protocols of the gateways to runs, experiments and schedules.

The real ones are in `perdure.gateway`, with the details; tests bring their own.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from perdure.domain.foundation.names import LoopKind
from perdure.domain.memory.patterns import MineReport
from perdure.domain.run.cost_report import CostReport
from perdure.domain.run.events import Event
from perdure.domain.run.messages import AnyMessage, Receipt
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.domain.specs import Spec
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.types import (
    BulkReport,
    FailingRuns,
    OpenGates,
    QueueState,
    Repaired,
    Retained,
    RunFilter,
    RunPage,
    UpkeepOutcome,
    UpkeepSchedule,
)

if TYPE_CHECKING:  # imported for types only: few commands need them, and the others start faster
    from perdure.domain.experiments.plan import Entry, Plan
    from perdure.domain.experiments.status import ExperimentStatus
    from perdure.domain.experiments.store import Place, StoredExperiment
    from perdure.domain.experiments.trials import Trial
    from perdure.domain.retention.erasure import Tombstone
    from perdure.domain.run.figures import ServerLoad
    from perdure.domain.schedules.plan import SchedulePlan
    from perdure.domain.schedules.status import ScheduleStatus, Triggered
    from perdure.domain.schedules.store import UnreadableSchedule
    from perdure.gateway.upkeep import Duty


class RunGateway(Protocol):
    """The runs, as interfaces reach them; implemented by `Gateway`."""

    async def start(
        self,
        spec: Spec,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
    ) -> str:
        """Start a run and return its id."""
        ...

    async def check(self, spec: Spec) -> Spec:
        """The specification as it would run here; asks no server; raises `InvalidInput`."""
        ...

    async def default_model(self) -> str | None:
        """The workers' default model; None if no worker has reported one."""
        ...

    async def fork_spec(self, run: str, iteration: int) -> Spec:
        """The specification for a fork from an iteration, before any changes."""
        ...

    async def fork(
        self,
        run: str,
        iteration: int,
        spec: Spec,
        *,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        by: str = "",
    ) -> str:
        """Start a new run that goes on from an iteration of another, and return its id."""
        ...

    async def readiness(self, spec: Spec) -> Sequence[QueueState]:
        """The state of the queues that a run of this specification needs."""
        ...

    async def status(self, run: str) -> RunStatus: ...

    async def result(self, run: str, *, wait: bool = True) -> RunResult:
        """The result; with `wait=False`, raises `NotAllowed` while the run is open."""
        ...

    async def records(self, run: str) -> Sequence[IterationRecord]:
        """The records of all iterations."""
        ...

    async def costs(self, run: str | None = None) -> CostReport:
        """The spend by phase, model and day, of one run or of all."""
        ...

    def events(
        self, run: str, *, since: int = 0, on_trouble: Callable[[str], None] | None = None
    ) -> AsyncIterator[Event]:
        """Follow the run and report what blocks it; the last event is `ended`."""
        ...

    async def verb(self, run: str, message: AnyMessage) -> Receipt: ...

    async def failing(self, *, limit: int) -> FailingRuns:
        """Open runs whose code keeps failing, with the reasons."""
        ...

    async def load(self) -> "ServerLoad":
        """What waits at the server: runs for people, tasks for workers."""
        ...

    async def repair(self, run: str, *, repeat: bool = False) -> Repaired:
        """Reset a run whose code keeps failing to its last good point.

        Only with `repeat`, steps run again that must run once and may have had their effect.
        """
        ...

    async def verb_all(
        self, message: AnyMessage, *, kind: LoopKind | None = None, root: str | None = None
    ) -> BulkReport:
        """Steer all open runs, or only those of a kind or below a root."""
        ...

    async def gates(self) -> OpenGates: ...

    async def list(self, wanted: RunFilter | None = None) -> RunPage:
        """One page of runs."""
        ...

    async def count(self, wanted: RunFilter) -> int:
        """How many runs on the server match a filter."""
        ...

    async def delete(self, run: str) -> None:
        """Delete an ended run; raises `NotAllowed` for an open one."""
        ...

    async def expire(self, stones: "Sequence[Tombstone]", *, dry_run: bool = False) -> None:
        """Delete a tree of ended runs except for tombstones; raises `NotAllowed` if one is open."""
        ...

    async def resolve(self, name: str) -> str:
        """The full id behind a unique beginning or `@last`."""
        ...

    def upkeep(self, duty: "Duty") -> "UpkeepGateway":
        """The schedule of pattern mining or garbage collection."""
        ...

    async def mine(self) -> MineReport:
        """Look for patterns once, now."""
        ...

    def fresh_id(self, kind: str, goal: str) -> str:
        """A new id that no run has."""
        ...

    async def history_export(self, run: str) -> bytes:
        """The history as JSON."""
        ...

    def retained(self, runs: Collection[str] | None = None) -> AsyncIterator[Retained]:
        """What the server keeps of each execution, or of these runs only, for cleaning up."""
        ...

    async def server_ahead(self) -> float | None:
        """The seconds by which the server's clock is ahead of this host's; None if untold."""
        ...

    async def close_rows(
        self, *, before: datetime | None = None, runs: Collection[str] | None = None
    ) -> int:
        """Close rows of runs that were ended from outside, and returns how many.

        With a time `before`, only of those that had ended then. `runs` names those to look at;
        without them it looks at all.
        """
        ...

    def web_url(self, run: str) -> str | None:
        """The address of a run in the Temporal Web UI."""
        ...


class UpkeepGateway(Protocol):
    """A scheduled duty of the installation, as interfaces reach it."""

    async def state(self) -> UpkeepSchedule | None:
        """The schedule, or None."""
        ...

    async def outcome(self) -> UpkeepOutcome:
        """How the last executions went."""
        ...

    async def every(self, interval: timedelta) -> UpkeepSchedule:
        """Do it at this interval from now on."""
        ...

    async def off(self) -> bool:
        """End the schedule; False if there is none."""
        ...


class ExperimentGateway(Protocol):
    """The experiments, as interfaces reach them; see `gateway.experiments.Experiments`."""

    async def start(self, plan: "Plan", entries: "Sequence[Entry]", *, id: str) -> str:
        """Start an experiment and return its id."""
        ...

    async def stored(self, id: str) -> "StoredExperiment":
        """The experiment as stored."""
        ...

    async def resolve(self, name: str) -> str:
        """The full id behind a unique beginning or `@last`."""
        ...

    async def list(
        self, *, limit: int = 100, after: "Place | None" = None
    ) -> "Sequence[ExperimentStatus]":
        """The newest experiments first, or those behind a place."""
        ...

    async def status(self, id: str) -> "ExperimentStatus":
        """The state and progress of an experiment."""
        ...

    async def trials(self, id: str) -> "Sequence[Trial]":
        """The results of its trials so far."""
        ...

    async def entries(self, id: str) -> "Sequence[Entry]":
        """Its inputs in order."""
        ...

    async def pause(self, id: str) -> None:
        """Start no further trial."""
        ...

    async def stop(self, id: str, *, now: bool = False) -> None:
        """End it."""
        ...

    async def resume(
        self, id: str, *, cost_usd: Decimal | None = None, tokens: int | None = None
    ) -> None:
        """Go on after a pause, a stop or a spent budget; limits count while it runs, too."""
        ...

    async def extend(
        self, id: str, entries: "Sequence[Entry]", *, after: int
    ) -> "ExperimentStatus":
        """Run further inputs too, after the first `after` ones."""
        ...

    async def delete(self, id: str) -> None:
        """Forget an experiment that has ended."""
        ...


class ScheduleGateway(Protocol):
    """The schedules, as interfaces reach them; see `gateway.schedules.Schedules`."""

    async def create(
        self, plan: "SchedulePlan", *, paused: bool = False, replace: bool = False
    ) -> "ScheduleStatus":
        """Start a task by the clock from now on."""
        ...

    async def list(self) -> "Sequence[ScheduleStatus]":
        """All schedules by name."""
        ...

    async def unreadable(self) -> "Sequence[UnreadableSchedule]":
        """Those that `list` passes over, because this version cannot read them."""
        ...

    async def status(self, name: str) -> "ScheduleStatus":
        """The state of a schedule."""
        ...

    async def pause(self, name: str, *, note: str = "") -> "ScheduleStatus":
        """Start nothing until it is resumed."""
        ...

    async def resume(self, name: str, *, note: str = "") -> "ScheduleStatus":
        """Start its task by the clock again."""
        ...

    async def trigger(self, name: str, *, request: str | None = None) -> "Triggered":
        """Start its task once, now; a `request` is done once, however often it is sent."""
        ...

    async def delete(self, name: str) -> None:
        """End a schedule; its runs stay."""
        ...
