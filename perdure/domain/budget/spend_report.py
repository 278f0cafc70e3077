"""What all runs spent in a period, by day, kind, label, owner, model or run; and its port."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Literal, Protocol, Self

from pydantic import model_validator

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.usage import Usage

SpendKey = Literal["day", "kind", "label", "owner", "model", "run"]


class SpendFilter(FrozenModel):
    """Which calls a table holds; a None takes all.

    Kind, label and owner are those of the run at the top of a call's tree; of a run that learned,
    label and owner are those of the run that it learned from. `unlabelled` takes only runs without
    a label, `unknown_kind` only runs of which no kind is known, `unowned` those of which no owner
    is: what the lines without a name of the tables by label, kind and owner hold.
    """

    model: str | None = None
    kind: str | None = None
    label: str | None = None
    owner: str | None = None
    unlabelled: bool = False
    unknown_kind: bool = False
    unowned: bool = False

    @property
    def asks_runs(self) -> bool:
        """Whether it asks for more than a call itself says."""
        return self != SpendFilter(model=self.model)

    @property
    def asks_owners(self) -> bool:
        """Whether it asks who caused a run."""
        return self.unowned or self.owner is not None

    def takes(self, *, kind: str | None, label: str | None, owner: str | None) -> bool:
        """Whether calls of a run of this kind, label and owner are in it."""
        return (
            (self.kind is None or kind == self.kind)
            and (self.label is None or label == self.label)
            and not (self.unlabelled and label)
            and not (self.unknown_kind and kind)
            and (self.owner is None or owner == self.owner)
            and not (self.unowned and owner)
        )


ALL_CALLS = SpendFilter()


class Period(FrozenModel):
    """Whole days in UTC, the last one included."""

    since: date
    until: date

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.since > self.until:
            raise ValueError(f"since ({self.since}) is after until ({self.until})")
        return self

    @property
    def begin(self) -> datetime:
        """The first moment in it."""
        return datetime.combine(self.since, time(), UTC)

    @property
    def end(self) -> datetime:
        """The first moment after it."""
        # There is no day after it.
        if self.until == date.max:
            return datetime.max.replace(tzinfo=UTC)
        return datetime.combine(self.until + timedelta(days=1), time(), UTC)


class SpendLine(FrozenModel):
    """The model calls that share a day, kind, label, owner, model, or the run on top of their tree.

    `name` is None for calls of runs without a label or a known owner, and of deleted runs. `calls`
    is how many attempts were sent; of these, `unpriced_calls` have no known price and
    `estimated_calls` are booked at an estimate, as their worker died or the provider did not tell.
    `known_cost_usd` is the cost of all that have a price. `learned_from` says of a run that only
    learned from another one which that is; people may call their own runs `learn-…` too.
    """

    name: str | None = None
    learned_from: str | None = None
    calls: int = 0
    unpriced_calls: int = 0
    estimated_calls: int = 0
    usage: Usage = Usage()
    known_cost_usd: Decimal = Decimal(0)
    seconds: float = 0.0

    @property
    def cost_usd(self) -> Decimal | None:
        """The cost, or None where the price of a call is unknown: never silently smaller."""
        return None if self.unpriced_calls else self.known_cost_usd

    def plus(self, other: "SpendLine") -> "SpendLine":
        """Both under the name of this one."""
        return SpendLine(
            name=self.name,
            learned_from=self.learned_from or other.learned_from,
            calls=self.calls + other.calls,
            unpriced_calls=self.unpriced_calls + other.unpriced_calls,
            estimated_calls=self.estimated_calls + other.estimated_calls,
            usage=self.usage + other.usage,
            known_cost_usd=self.known_cost_usd + other.known_cost_usd,
            seconds=round(self.seconds + other.seconds, 3),
        )


class SpendCell(FrozenModel):
    """The model calls that share all of this, of whatever runs.

    `learning` tells calls of runs that learned from others. `unconfirmed` are those at an
    estimate, and those whose reply nobody used.
    """

    phase: str
    model: str
    day: str
    learning: bool
    unconfirmed: bool
    line: SpendLine


class InputSavings(FrozenModel):
    """Prompt tokens of runs, and those of loops that resend everything in every iteration.

    Only runs whose result says both count.
    """

    runs: int = 0
    input_tokens: int = 0
    naive_input_tokens: int = 0

    @property
    def share(self) -> float | None:
        """The share that was not sent; None when nothing was saved."""
        if self.naive_input_tokens <= self.input_tokens:
            return None
        return 1 - self.input_tokens / self.naive_input_tokens


class Ledger(Protocol):
    """Sums over the journal, made by the store."""

    async def spending(
        self, by: SpendKey, period: Period, only: SpendFilter = ALL_CALLS
    ) -> list[SpendLine]:
        """What calls that began in the period used; the days in order, all else by cost.

        Kind, label, owner and run are as in `SpendFilter`. By run, the line
        without a name holds runs that are gone and whose calls were added up.
        """
        ...

    async def cells(self) -> list[SpendCell]:
        """What all calls that the store knows used, whenever they began."""
        ...

    async def roll_up(self, *, before: datetime) -> int:
        """Add up calls that began before a moment and whose runs are gone, and drop their rows.

        No sum changes. Only calls that the totals of monitoring have are added up.

        Returns:
            How many rows went.
        """
        ...

    async def savings(self, period: Period) -> InputSavings:
        """What runs that ended in the period sent, against a loop that resends everything."""
        ...
