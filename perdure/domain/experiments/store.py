"""Where experiments are kept: the plan, the inputs, and what became of each trial."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple, Protocol

from perdure.domain.experiments.plan import Entry, Plan
from perdure.domain.experiments.trials import Trial
from perdure.domain.foundation.base import FrozenModel

ExperimentState = Literal["running", "paused", "ended"]
EndReason = Literal["", "completed", "stopped", "budget", "failed"]


class StoredExperiment(FrozenModel):
    """An experiment as its row says; `reason` is empty while it is open.

    `digest` is of what it was started with: the same id with another plan is another experiment.
    """

    id: str
    plan: Plan
    inputs: int
    digest: str
    created_at: datetime
    state: ExperimentState = "running"
    reason: EndReason = ""
    ended_at: datetime | None = None

    @property
    def trials(self) -> int:
        """How many trials its inputs make."""
        return self.inputs * self.plan.trials_per_input


class UnreadableExperiment(FrozenModel):
    """A row whose plan this version cannot read; `why` says what is wrong and what to do."""

    id: str
    name: str
    state: str
    reason: str
    inputs: int
    created_at: datetime
    ended_at: datetime | None = None
    why: str


class Totals(FrozenModel):
    """The trials of an experiment, added up; `spent_usd` is None where a price is unknown."""

    ended: int = 0
    spent_usd: Decimal | None = Decimal(0)
    spent_tokens: int = 0


class Place(NamedTuple):
    """Where an experiment stands in the list: the newest first, of equals by id."""

    created_at: datetime
    id: str


class ExperimentStore(Protocol):
    """Rows of experiments. Every write may be repeated."""

    async def create(self, experiment: StoredExperiment, entries: Sequence[Entry]) -> bool:
        """Keep a new experiment with its inputs; False when there is one of this id."""
        ...

    async def get(self, id: str) -> StoredExperiment | None:
        """An experiment, or None; raises `Unreadable` where its row cannot be read."""
        ...

    async def list(
        self, *, limit: int = 100, after: Place | None = None
    ) -> Sequence[StoredExperiment | UnreadableExperiment]:
        """The newest experiments first, or those behind a place."""
        ...

    async def put_plan(self, id: str, plan: Plan) -> None:
        """Replace the plan, of which only the budget may be another."""
        ...

    async def add_entries(self, id: str, entries: Sequence[Entry], *, after: int) -> bool:
        """Append inputs to the `after` that are there; False when there are others by now."""
        ...

    async def entry(self, id: str, position: int) -> Entry | None:
        """One input; the first is 0."""
        ...

    async def entries(self, id: str) -> Sequence[Entry]:
        """All inputs in order."""
        ...

    async def put_trial(self, id: str, trial: Trial) -> None:
        """Keep how a trial stands; a later state replaces an earlier one."""
        ...

    async def trial(self, id: str, number: int) -> Trial | None:
        """One trial, or None before its first run ended."""
        ...

    async def trials(self, id: str) -> Sequence[Trial]:
        """All trials of which a run ended, by number."""
        ...

    async def totals(self, ids: Sequence[str]) -> Mapping[str, Totals]:
        """The trials of these experiments added up, without reading each of them."""
        ...

    async def note(
        self, id: str, state: ExperimentState, *, reason: EndReason = "", at: datetime
    ) -> None:
        """Keep how an experiment stands."""
        ...

    async def delete(self, id: str) -> bool:
        """Forget an experiment; its runs stay. False when there is none."""
        ...
