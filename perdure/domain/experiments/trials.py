"""What became of the trials of an experiment: a row for each, small enough for ten thousand."""

from collections.abc import Sequence
from decimal import Decimal

from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.experiments.plan import Tries
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.run.result import BAD_OUTCOMES, RunResult
from perdure.domain.turns.records import IterationRecord

ENDED_BY_HAND: frozenset[str] = frozenset({"stopped"})


class Step(FrozenModel):
    """One iteration of a run: its score, and what it used."""

    score: float | None = None
    tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)


class Try(FrozenModel):
    """One run of a trial and how it ended; `held_out` is a score that the loop never saw.

    `judged` is the run of the judge that gave that score, whose spend is in `judge_usd`; a try that
    is `empty` left no output, so no judge is asked about it.
    `lost_tokens` were used by calls whose answer nobody received, as when a worker was killed: they
    are paid, and say nothing about the arm.
    """

    run: str
    outcome: Outcome
    reason: str = ""
    score: float | None = None
    met: bool = False
    held_out: float | None = None
    why: str = ""
    tokens: int = 0
    lost_tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    known_usd: Decimal = Decimal(0)
    model_calls: int = 0
    seconds: float = 0.0
    steps: tuple[Step, ...] = ()
    judged: str | None = None
    empty: bool = False
    judge_tokens: int = 0
    judge_usd: Decimal | None = Decimal(0)
    judge_known_usd: Decimal = Decimal(0)

    @property
    def spent_tokens(self) -> int:
        """All tokens that count against a budget, a judge's included."""
        return self.tokens + self.lost_tokens + self.judge_tokens

    @property
    def least_usd(self) -> Decimal:
        """What it and its judge cost at least: without calls whose price is unknown."""
        own = self.known_usd if self.cost_usd is None else self.cost_usd
        return own + (self.judge_known_usd if self.judge_usd is None else self.judge_usd)

    @property
    def failed(self) -> bool:
        """Whether it ended without a result to use; it counts as a score of 0."""
        return self.outcome in BAD_OUTCOMES

    @property
    def by_hand(self) -> bool:
        """Whether somebody stopped it, which leaves its trial out of the report."""
        return self.outcome in ENDED_BY_HAND

    @property
    def unscored(self) -> bool:
        """Whether its output was looked at outside of the loop and nobody could say how good it is.

        As when the judge's reply held no score, or a check could not be run.
        """
        looked_at = self.judged is not None or bool(self.why)
        return self.held_out is None and looked_at and not self.failed


class Trial(FrozenModel):
    """All runs of one trial, in the order in which they were made."""

    number: int
    arm: str
    entry: int
    repeat: int = 0
    tries: tuple[Try, ...] = ()
    ended: bool = False

    @property
    def chosen(self) -> Try | None:
        """The try that counts: the best by the loop's own score, the first of equals.

        A held-out score never chooses: nobody would know it outside of an experiment. A try that
        failed has no result to keep, so it counts only where all failed.
        """
        return max(self.tries, key=lambda one: (not one.failed, one.score or 0.0), default=None)

    @property
    def counts(self) -> bool:
        """Whether it is part of the report: it ended, and nobody stopped it."""
        return self.ended and not any(one.by_hand for one in self.tries)

    @property
    def tokens(self) -> int:
        """The tokens of all its runs, without those of held-out judges."""
        return sum(one.tokens for one in self.tries)

    @property
    def model_calls(self) -> int:
        return sum(one.model_calls for one in self.tries)

    @property
    def seconds(self) -> float:
        """Working time of all its runs."""
        return sum(one.seconds for one in self.tries)

    @property
    def cost_usd(self) -> Decimal | None:
        """The cost of all its runs; None if a price is unknown."""
        return total_usd([one.cost_usd for one in self.tries])

    @property
    def spent_tokens(self) -> int:
        """All tokens that count against a budget, those of judges included."""
        return sum(one.spent_tokens for one in self.tries)

    @property
    def spent_usd(self) -> Decimal | None:
        """The same in money; None where a price is unknown."""
        return total_usd([cost for one in self.tries for cost in (one.cost_usd, one.judge_usd)])


def total_usd(costs: Sequence[Decimal | None]) -> Decimal | None:
    """A sum of costs; None where one is unknown."""
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if len(known) == len(costs) else None


def try_of(
    result: RunResult, records: Sequence[IterationRecord], *, count_cache_reads: bool = False
) -> Try:
    """What a report needs of a run's result and all its iterations.

    `count_cache_reads` is what the run's own limits say of its tokens.
    """
    spend = result.spend
    lost = spend.unconfirmed_usage.counted_tokens(count_cache_reads=count_cache_reads)
    return Try(
        run=result.id,
        outcome=result.outcome,
        reason=result.reason,
        score=result.best.score if result.best is not None else None,
        met=result.quality_met,
        tokens=max(0, spend.tokens - lost),
        lost_tokens=lost,
        cost_usd=spend.cost_usd,
        known_usd=spend.least_cost_usd if spend.cost_usd is None else Decimal(0),
        model_calls=sum(record.model_calls for record in records) or spend.model_calls,
        seconds=spend.active_time_s,
        steps=tuple(
            Step(
                score=record.score,
                tokens=record.usage.counted_tokens(count_cache_reads=count_cache_reads),
                cost_usd=record.cost_usd,
            )
            for record in records
        ),
    )


def another_try(wanted: Tries | None, made: Sequence[Try], beside: Trial | None) -> bool:
    """Whether a trial makes another try.

    For what another arm spent, one more is made while one as dear as the dearest so far still fits;
    the first is always made.
    """
    if not made:
        return True
    # Without a count, what the other arm spent is the only limit.
    if wanted is None or len(made) >= (wanted.count or len(made) + 1):
        return False
    if wanted.spend is None:
        return True
    if beside is None:
        return False
    calls = wanted.spend == "same_calls"
    used = [one.model_calls if calls else one.tokens for one in made]
    limit = beside.model_calls if calls else beside.tokens
    # A try that used nothing failed before it began, and so would a thousand more.
    return max(used) > 0 and sum(used) + max(used) <= limit
