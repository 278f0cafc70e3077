"""The budget of a run, and the only functions that change it.

A call first reserves the most that it may use, then settles what it did use. A limit of zero or
null means unlimited (except `depth`). What remains is never negative. An unknown cost is None,
never zero.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.requests import Price
from perdure.domain.llm.usage import AttemptTotals, Usage

Dimension = Literal[
    "tokens",
    "output_tokens",
    "model_calls",
    "cost",
    "tool_calls",
    "iterations",
    "workers",
    "wall_time",
    "active_time",
]

# The order in which dimensions are looked at gives a run one stable reason.
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
# What a child run gets a share of; times are shared, not split.
SPLIT: tuple[Dimension, ...] = (
    "tokens",
    "output_tokens",
    "model_calls",
    "tool_calls",
    "iterations",
    "workers",
)
TIME_DIMENSIONS: frozenset[Dimension] = frozenset({"wall_time", "active_time"})
# Not the clocks: a spent clock gets no closing call, for a deadline is a deadline.
RESERVED_FOR_WRAP_UP: frozenset[Dimension] = frozenset({"tokens", "output_tokens", "cost"})
WARNING_SHARE = 0.8
MAX_ITERATIONS = 10_000
# Below this a reserve would pay for an answer that says nothing.
MIN_OUTPUT_TOKENS = 16

# Larger values are mistakes, and no server accepts a timer of 10,000 years.
MOST = 10**15
MOST_USD = 10**9
MOST_SECONDS = 10 * 365 * 86_400
MONTH_S = 30 * 86_400

Count = Annotated[int, Field(ge=0, le=MOST)]
Money = Annotated[Decimal, Field(ge=0, le=MOST_USD)]
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)]


STAND_IN_CURE = "Name a model whose price is known, or state its price in the price sheet."


class AssumePrice(FrozenModel):
    """Price an unknown model like a known one."""

    assume: str


def priceless_stand_in(model: str) -> str:
    """The problem of a stand-in that has no price either, so that no limit in money would hold."""
    return f"budget.unknown_price.assume: the price of {model!r} is unknown too."


class BudgetLimits(FrozenModel):
    """The `budget:` block of a specification; times in seconds, money in USD."""

    tokens: Count | None = 200_000
    cost_usd: Money | None = Decimal("2.00")
    active_time: Seconds | None = 300
    # Time in all ends runs that nobody looks after: also paused ones, and those without workers.
    wall_time: Seconds | None = MONTH_S
    output_tokens: Count | None = None
    model_calls: Count | None = None
    tool_calls: Count | None = None
    workers: Count | None = None
    iterations: int | None = Field(default=None, ge=0, le=MAX_ITERATIONS)
    depth: int = Field(default=4, ge=0, le=MOST)
    count_cache_reads: bool = False
    wrap_up: float = Field(default=0.10, ge=0, lt=1)
    on_exhausted: Literal["abort", "ask"] = "abort"
    unknown_price: Literal["block", "unverified"] | AssumePrice = "block"

    @field_validator("cost_usd", mode="before")
    @classmethod
    def _exact_money(cls, value: object) -> object:
        # `Decimal(0.1)` is not 0.1: sums of cents must be exact, or a limit of 2.00 is missed by a
        # rounding error.
        return Decimal(str(value)) if isinstance(value, float) else value

    def limit(self, dimension: Dimension) -> Decimal | None:
        raw = self.cost_usd if dimension == "cost" else getattr(self, dimension)
        if dimension == "iterations":
            # Never unlimited: some bound must end a loop whose other limits are all off.
            return Decimal(raw or MAX_ITERATIONS)
        return None if not raw else Decimal(str(raw))


class Reservation(FrozenModel):
    """Amounts that a call or child run reserves."""

    tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    cost_usd: Decimal = Decimal(0)
    tool_calls: int = 0
    iterations: int = 0
    workers: int = 0

    def of(self, dimension: Dimension) -> Decimal:
        """The amount in one dimension; zero for those that are never reserved."""
        if dimension == "cost":
            return self.cost_usd
        return Decimal(getattr(self, dimension, 0))


class Spend(FrozenModel):
    """What a run has used. `unpriced` says that some cost is unknown, so the total is too."""

    tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    cost_usd: Decimal = Decimal(0)
    unpriced: bool = False
    tool_calls: int = 0
    iterations: int = 0
    workers: int = 0
    sub_managers: int = 0
    active_time: float = 0.0
    usage: Usage = Usage()
    unconfirmed: Usage = Usage()
    unconfirmed_cost_usd: Decimal = Decimal(0)

    @property
    def cost_or_none(self) -> Decimal | None:
        """The cost in USD, or None when a part of it is unknown."""
        return None if self.unpriced else self.cost_usd

    def of(self, dimension: Dimension, *, wall_time: float) -> Decimal:
        """The amount spent in one dimension; wall time is handed in."""
        if dimension == "cost":
            return self.cost_usd
        if dimension == "wall_time":
            return Decimal(str(wall_time))
        return Decimal(str(getattr(self, dimension)))


class Budget(FrozenModel):
    """Limits, what was spent, and what is reserved by key; `warned` names passed 80 % marks."""

    limits: BudgetLimits
    spent: Spend = Spend()
    reserved: Mapping[str, Reservation] = {}
    warned: tuple[Dimension, ...] = ()
    complete_output: bool = False

    def reserved_in(self, dimension: Dimension) -> Decimal:
        """Everything that open reservations hold in a dimension."""
        return sum((amounts.of(dimension) for amounts in self.reserved.values()), Decimal(0))

    def visible_limit(self, dimension: Dimension, *, wrap_up: bool = False) -> Decimal | None:
        """The limit that ordinary calls see: less the reserve until there is a result."""
        limit = self.limits.limit(dimension)
        if limit is None or wrap_up or self.complete_output:
            return limit
        if dimension not in RESERVED_FOR_WRAP_UP:
            return limit
        kept = limit * (1 - Decimal(str(self.limits.wrap_up)))
        if dimension == "output_tokens" and limit - kept < MIN_OUTPUT_TOKENS:
            return limit  # too small a reserve to say anything with
        return kept if dimension == "cost" else Decimal(int(kept))

    def remaining(
        self, dimension: Dimension, *, wall_time: float = 0.0, wrap_up: bool = False
    ) -> Decimal | None:
        """What is left, never negative; None when unlimited."""
        limit = self.visible_limit(dimension, wrap_up=wrap_up)
        if limit is None:
            return None
        used = self.spent.of(dimension, wall_time=wall_time) + self.reserved_in(dimension)
        return max(Decimal(0), limit - used)

    def fraction_remaining(self, *, wall_time: float = 0.0) -> float:
        """The smallest remaining share over all limited dimensions, between 0 and 1."""
        shares = [1.0]
        for dimension in DIMENSIONS:
            limit = self.limits.limit(dimension)
            # Of the whole limit: nothing of the reserve is spent yet.
            left = self.remaining(dimension, wall_time=wall_time, wrap_up=True)
            if limit and left is not None:
                shares.append(float(left / limit))
        return min(shares)


class CallFit(FrozenModel):
    """A model call that fits: its output cap and what to reserve for it."""

    max_tokens: int
    amounts: Reservation


class LimitReached(FrozenModel):
    """A limit forbids the next step: which dimension, and its figures.

    `note` says it in other words, where a part of the budget is meant.
    """

    dimension: Dimension
    spent: Decimal
    limit: Decimal
    note: str = ""

    @property
    def text(self) -> str:
        """The limit and the actual figure, for people."""
        if self.note:
            return self.note
        unit = {"cost": " USD", "wall_time": " s", "active_time": " s"}.get(self.dimension, "")
        return f"{self.dimension}: {plain_figure(self.spent)} of {plain_figure(self.limit)}{unit}"


def exhausted_limit(
    budget: Budget, *, wall_time: float = 0.0, wrap_up: bool = False, within_iteration: bool = False
) -> LimitReached | None:
    """The first dimension with spent + reserved ≥ limit, in the fixed order, or None.

    Agents and managers count an iteration at its start, so the last one may finish: inside it
    (`within_iteration`) that dimension is not looked at.
    """
    for dimension in DIMENSIONS:
        if dimension == "iterations" and within_iteration:
            continue
        limit = budget.visible_limit(dimension, wrap_up=wrap_up)
        if limit is None:
            continue
        used = budget.spent.of(dimension, wall_time=wall_time) + budget.reserved_in(dimension)
        if used >= limit:
            return LimitReached(dimension=dimension, spent=used, limit=limit)
    return None


def fit_call(
    budget: Budget,
    *,
    prompt_tokens: int,
    wanted: int,
    price: Price | None,
    wrap_up: bool = False,
    least: int = MIN_OUTPUT_TOKENS,
) -> CallFit | LimitReached:
    """Cap the output of a model call to what is left, or say which dimension forbids it.

    One that could say less than `least` is not made, unless it wants no more.
    """
    caps = {
        "tokens": _room(budget, "tokens", wrap_up, prompt_tokens),
        "output_tokens": _room(budget, "output_tokens", wrap_up, 0),
        "cost": _affordable(budget, prompt_tokens, price, wrap_up),
    }
    least = min(wanted, max(least, MIN_OUTPUT_TOKENS))
    for dimension in DIMENSIONS:
        cap = caps.get(dimension)
        if cap is not None and cap < least:
            return _refusal(budget, dimension, wrap_up)
    calls = budget.remaining("model_calls", wrap_up=wrap_up)
    if calls is not None and calls < 1:
        return _refusal(budget, "model_calls", wrap_up)
    max_tokens = min([wanted, *(cap for cap in caps.values() if cap is not None)])
    worst = Usage(input_tokens=prompt_tokens, output_tokens=max_tokens)
    return CallFit(
        max_tokens=max_tokens,
        amounts=Reservation(
            tokens=prompt_tokens + max_tokens,
            output_tokens=max_tokens,
            model_calls=1,
            cost_usd=worst_cost(price, worst),
        ),
    )


def worst_cost(price: Price | None, usage: Usage) -> Decimal:
    """The most that a prompt and its output may cost: all input priced as a cache write."""
    if price is None:
        return Decimal(0)
    # A cache write costs a quarter more than plain input, for an hour twice as much, and only the
    # provider knows what it wrote.
    written = (
        Usage(cache_write_1h_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
        if price.cache_life == "1h"
        else Usage(cache_write_5m_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    )
    # A price sheet may set writes below plain input.
    return max(price.cost(usage), price.cost(written))


def reserve(budget: Budget, key: str, amounts: Reservation) -> Budget:
    """Hold `amounts` under `key` until it is settled or released."""
    # The same key replaces: who comes here again must not hold the amounts twice.
    return budget.model_copy(update={"reserved": {**budget.reserved, key: amounts}})


def release(budget: Budget, key: str) -> Budget:
    """Give a reservation back unused."""
    kept = {name: held for name, held in budget.reserved.items() if name != key}
    return budget.model_copy(update={"reserved": kept})


def settle(budget: Budget, key: str, account: AttemptTotals, *, calls: int | None = None) -> Budget:
    """Replace a reservation by what the attempts did use; lost ones count at their estimate."""
    total = account.total_usage
    spent = budget.spent
    unpriced = account.total_cost_usd is None
    settled = spent.model_copy(
        update={
            "tokens": spent.tokens
            + total.counted_tokens(count_cache_reads=budget.limits.count_cache_reads),
            "output_tokens": spent.output_tokens + total.output_tokens,
            "model_calls": spent.model_calls + (account.attempts if calls is None else calls),
            "cost_usd": spent.cost_usd + account.least_cost_usd,
            "unpriced": spent.unpriced or unpriced,
            "usage": spent.usage + account.usage,
            "unconfirmed": spent.unconfirmed + account.unconfirmed,
            "unconfirmed_cost_usd": spent.unconfirmed_cost_usd
            + (account.unconfirmed_cost_usd or Decimal(0)),
        }
    )
    return release(budget, key).model_copy(update={"spent": settled})


def count(budget: Budget, *, tool_calls: int = 0, iterations: int = 0) -> Budget:
    """Count what is never reserved: tool calls and iterations."""
    spent = budget.spent
    return budget.model_copy(
        update={
            "spent": spent.model_copy(
                update={
                    "tool_calls": spent.tool_calls + tool_calls,
                    "iterations": spent.iterations + iterations,
                }
            )
        }
    )


def add_active_time(budget: Budget, seconds: float) -> Budget:
    """Add active time, in seconds."""
    # A worker's clock that is set back during a step must not give time back.
    active = round(budget.spent.active_time + max(0.0, seconds), 6)
    return budget.model_copy(
        update={"spent": budget.spent.model_copy(update={"active_time": active})}
    )


def new_warnings(budget: Budget, *, wall_time: float = 0.0) -> tuple[Budget, tuple[Dimension, ...]]:
    """Dimensions that passed 80 % since the last look; each is named once in a run."""
    fresh: list[Dimension] = []
    for dimension in DIMENSIONS:
        limit = budget.limits.limit(dimension)
        used = budget.spent.of(dimension, wall_time=wall_time)
        if limit and dimension not in budget.warned and float(used / limit) > WARNING_SHARE:
            fresh.append(dimension)
    if not fresh:
        return budget, ()
    return budget.model_copy(update={"warned": (*budget.warned, *fresh)}), tuple(fresh)


def _room(budget: Budget, dimension: Dimension, wrap_up: bool, prompt: int) -> int | None:
    left = budget.remaining(dimension, wrap_up=wrap_up)
    return None if left is None else int(left) - prompt


def _affordable(budget: Budget, prompt: int, price: Price | None, wrap_up: bool) -> int | None:
    left = budget.remaining("cost", wrap_up=wrap_up)
    if left is None or price is None:
        return None
    after_prompt = left - worst_cost(price, Usage(input_tokens=prompt))
    if price.output_per_million == 0:
        # Output is free here, the prompt is not.
        return 0 if after_prompt < 0 else None
    return int(after_prompt * 1_000_000 / price.output_per_million)


def _refusal(budget: Budget, dimension: Dimension, wrap_up: bool) -> LimitReached:
    limit = budget.visible_limit(dimension, wrap_up=wrap_up) or Decimal(0)
    used = budget.spent.of(dimension, wall_time=0.0) + budget.reserved_in(dimension)
    return LimitReached(dimension=dimension, spent=used, limit=limit)


def plain_figure(value: Decimal) -> str:
    """A figure without exponent and trailing zeros."""
    return f"{value.normalize():f}"
