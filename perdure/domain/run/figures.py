"""How an installation stands, in figures: what a monitoring system asks for every few seconds."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.usage import Usage
from perdure.domain.run.metrics import Metric

Labels: TypeAlias = tuple[str, ...]
Samples: TypeAlias = Mapping[Labels, float]
# By metric, and by the values of its labels; what is not known is not there.
Figures: TypeAlias = Mapping[Metric, Samples]


class RunState(NamedTuple):
    """What runs are counted by; `outcome` is empty while a run is open."""

    kind: str
    lifecycle: str
    outcome: str


class CallSums(FrozenModel):
    """Model calls of one model in one phase.

    `calls` were sent; `unconfirmed` of them are booked at an estimate. Money is a float: for
    graphs, not for bills.
    """

    model: str
    phase: str
    calls: int = 0
    unconfirmed: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0

    def plus(self, other: "CallSums") -> "CallSums":
        """Both together, under the names of this one."""
        return CallSums(
            model=self.model,
            phase=self.phase,
            calls=self.calls + other.calls,
            unconfirmed=self.unconfirmed + other.unconfirmed,
            usage=self.usage + other.usage,
            cost_usd=self.cost_usd + other.cost_usd,
        )


def added_up(sums: Iterable[CallSums]) -> dict[tuple[str, str], CallSums]:
    """One line for each model and phase."""
    found: dict[tuple[str, str], CallSums] = {}
    for line in sums:
        key = line.model, line.phase
        found[key] = found[key].plus(line) if key in found else line
    return found


class StoreFigures(Protocol):
    """Figures of the store: their cost does not grow with the runs and calls there were."""

    async def runs(self) -> Mapping[RunState, int]:
        """How many runs stand how; those that were dropped are not among them."""
        ...

    async def ends(self) -> Mapping[RunState, int]:
        """How many runs have ended how, dropped ones too; one that is retried may end again."""
        ...

    async def count_calls(self, *, lost_before: datetime) -> bool:
        """Add attempts to the sums that can no longer change, a bounded number of them.

        Args:
            lost_before: a lost attempt that began before this is added as it is booked.

        Returns:
            Whether none is left to be added.
        """
        ...

    async def calls(self) -> list[CallSums]:
        """What was added so far, by model and phase; no sum ever falls."""
        ...

    async def unsettled(self) -> list[CallSums]:
        """Lost attempts that are not added yet, at their estimates, by model; `phase` is empty."""
        ...

    async def dead_notices(self, *, since: datetime) -> int:
        """How many notices were given up since then, and not sent again."""
        ...

    async def refused_starts(self, *, since: datetime) -> Mapping[str, int]:
        """How many starts were refused since then, by the name of their schedule."""
        ...

    async def sizes(self) -> Mapping[str, int]:
        """Bytes on disk by table with its indexes; SQLite tells only the whole (`all`)."""
        ...


class QueueLoad(FrozenModel):
    """What waits on a queue, as the server estimates it.

    `queue` is `loops`, `models` or `tools`; the queues of all workspaces are one.
    """

    queue: str
    backlog: int = 0
    age_s: float = 0.0
    pollers: int = 0


class ClockLoad(FrozenModel):
    """How what goes by the clock went; the collection's figures are None without a schedule.

    Args:
        missed: starts by schedule that came too late to be made up for, since it was made.
        collection_fails: whether the newest collection failed, or fails and is tried again.
        collection_overdue_s: for how long there should have been another success.
    """

    missed: Mapping[str, int] = {}
    collection_fails: bool | None = None
    collection_overdue_s: float | None = None


class ServerLoad(FrozenModel):
    """What the server says of all runs; `failing` and `stranded` are None where it cannot tell.

    `stranded` runs are pinned to a build of which no worker is left.
    """

    waiting: int = 0
    failing: int | None = None
    stranded: int | None = None
    queues: tuple[QueueLoad, ...] = ()
    clock: ClockLoad = ClockLoad()
