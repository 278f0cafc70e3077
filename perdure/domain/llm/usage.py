"""What a model call used, and what a set of attempts cost."""

from decimal import Decimal
from typing import Self

from perdure.domain.foundation.base import FrozenModel

# No answer has so many; sums of what is below fit the stores' columns.
MOST_TOKENS = 10**12


class Usage(FrozenModel):
    """Tokens of one or more attempts, as the provider reports them.

    `input_tokens` excludes cache reads and writes (the arithmetic of the Messages API).
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0

    def __add__(self, other: Self) -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_5m_tokens=self.cache_write_5m_tokens + other.cache_write_5m_tokens,
            cache_write_1h_tokens=self.cache_write_1h_tokens + other.cache_write_1h_tokens,
        )

    @property
    def prompt_tokens(self) -> int:
        """Everything that was sent: plain input, cache reads and cache writes."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
        )

    @property
    def is_plausible(self) -> bool:
        """Whether one attempt can have used so much; no count is below zero."""
        counts = (getattr(self, name) for name in type(self).model_fields)
        return all(0 <= count <= MOST_TOKENS for count in counts)

    def counted_tokens(self, *, count_cache_reads: bool = False) -> int:
        """Tokens that count against a budget; cache reads are paid in money only."""
        counted = self.prompt_tokens - self.cache_read_tokens + self.output_tokens
        return counted + (self.cache_read_tokens if count_cache_reads else 0)


class AttemptTotals(FrozenModel):
    """The sum of attempts under one journal key, or of many keys.

    `cost_usd` is None as soon as one attempt's price is unknown; `known_cost_usd` is then the cost
    of the others. `unconfirmed*` is the part that nobody confirmed: attempts that died with their
    worker (`lost_attempts`), or whose provider did not tell what they used.
    """

    attempts: int = 0
    usage: Usage = Usage()
    cost_usd: Decimal | None = Decimal(0)
    unconfirmed: Usage = Usage()
    unconfirmed_cost_usd: Decimal | None = Decimal(0)
    lost_attempts: int = 0
    seconds: float = 0.0
    known_cost_usd: Decimal = Decimal(0)

    def __add__(self, other: Self) -> "AttemptTotals":
        unknown = self.total_cost_usd is None or other.total_cost_usd is None
        return AttemptTotals(
            attempts=self.attempts + other.attempts,
            usage=self.usage + other.usage,
            cost_usd=add_cost(self.cost_usd, other.cost_usd),
            unconfirmed=self.unconfirmed + other.unconfirmed,
            unconfirmed_cost_usd=add_cost(self.unconfirmed_cost_usd, other.unconfirmed_cost_usd),
            lost_attempts=self.lost_attempts + other.lost_attempts,
            seconds=self.seconds + other.seconds,
            # Only where the total is unknown; else the total itself says it.
            known_cost_usd=self.least_cost_usd + other.least_cost_usd if unknown else Decimal(0),
        )

    @property
    def total_usage(self) -> Usage:
        """Confirmed and unconfirmed usage together: what the budget is charged."""
        return self.usage + self.unconfirmed

    @property
    def total_cost_usd(self) -> Decimal | None:
        """Confirmed and unconfirmed cost together, or None when a price is unknown."""
        return add_cost(self.cost_usd, self.unconfirmed_cost_usd)

    @property
    def least_cost_usd(self) -> Decimal:
        """What the attempts cost at least: without those whose price is unknown."""
        total = self.total_cost_usd
        return self.known_cost_usd if total is None else total


def add_cost(left: Decimal | None, right: Decimal | None) -> Decimal | None:
    """Add two costs; an unknown one makes the sum unknown, never silently smaller."""
    return None if left is None or right is None else left + right
