"""The journal of model calls: attempts, how one begins, and the port that stores them."""

from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from typing import Literal, Protocol

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.usage import AttemptTotals, Usage, add_cost

AttemptState = Literal["started", "answered", "failed", "lost", "duplicate"]


class Attempt(FrozenModel):
    """One attempt of a logical call, written before the call is sent.

    `key` is `workflow_run_id/activity_id`; `execution` the workflow run id; `estimate` what it may
    use at most; `expected` what is booked if it is lost (None: all of that); `reservation_tokens`,
    `reservation_output_tokens` and `reservation_cost_usd` what all attempts of the key may use
    together, `reservation_attempts` how many there may be (None: no limit). With
    `count_cache_reads`, tokens that a provider reads from its cache are some of those tokens.
    """

    key: str
    attempt: int
    execution: str
    root: str
    run: str
    phase: str
    role: str
    iteration: int
    model: str
    request_hash: str
    estimate: Usage
    estimate_cost_usd: Decimal | None
    expected: Usage | None = None
    expected_cost_usd: Decimal | None = None
    reservation_tokens: int | None = None
    reservation_cost_usd: Decimal | None = None
    reservation_attempts: int | None = None
    reservation_output_tokens: int | None = None
    count_cache_reads: bool = False


class Proceed(FrozenModel):
    """The attempt is open: call the provider."""

    type: Literal["proceed"]


class Replayed(FrozenModel):
    """The key was answered before: use this reply, call nobody."""

    type: Literal["replayed"]
    reply: str
    account: AttemptTotals


class DoesNotFit(FrozenModel):
    """The attempts of the key would exceed its reservation: nothing was sent."""

    type: Literal["does_not_fit"]
    account: AttemptTotals


class RunClosed(FrozenModel):
    """This execution was closed for spending: nothing was sent."""

    type: Literal["sealed"]


Begin = Proceed | Replayed | DoesNotFit | RunClosed


class AttemptRow(FrozenModel):
    """One row of the journal, for ledgers and people.

    `at_estimate`: its figures are an estimate, whatever came of the attempt later.
    """

    key: str
    attempt: int
    root: str
    run: str
    phase: str
    role: str
    iteration: int
    model: str
    state: AttemptState
    usage: Usage
    cost_usd: Decimal | None
    started_at: datetime
    seconds: float
    sent: bool = True
    at_estimate: bool = False

    @property
    def unconfirmed(self) -> bool:
        """Whether the figures are an estimate, or those of a reply that nobody used."""
        return self.at_estimate or self.state in {"lost", "duplicate"}


class CallProgress(FrozenModel):
    """The newest call of one execution of a run: its phase, and the iteration it is for."""

    run: str
    execution: str
    iteration: int
    phase: str


def is_within_reservation(attempt: Attempt, account: AttemptTotals) -> bool:
    """Whether the key's reservation covers what its attempts booked and this one's estimate.

    A cost that is unknown is not compared: whether such a model may be called at all is the
    budget's decision, made before.
    """
    if attempt.reservation_tokens is not None:
        used = account.total_usage + attempt.estimate
        tokens = used.counted_tokens(count_cache_reads=attempt.count_cache_reads)
        if tokens > attempt.reservation_tokens:
            return False
    output = account.total_usage.output_tokens + attempt.estimate.output_tokens
    if attempt.reservation_output_tokens is not None and output > attempt.reservation_output_tokens:
        return False
    # Lost attempts count at their estimate, so a call that keeps dying cannot outspend its
    # reservation.
    cost = add_cost(account.total_cost_usd, attempt.estimate_cost_usd)
    limit = attempt.reservation_cost_usd
    return limit is None or cost is None or cost <= limit


class Journal(Protocol):
    """The store of attempts and replies. A model call is committed by `answer`."""

    async def begin(self, attempt: Attempt) -> Begin:
        """Open an attempt in one transaction.

        Older open rows of the key become `lost` at their estimate. A reply to another request, as
        another version may have asked it, is never used: it becomes a `duplicate`.
        """
        ...

    async def answered(self, key: str, request_hash: str) -> Replayed | None:
        """The stored reply of a key, if the request is the same; changes nothing."""
        ...

    async def expect(self, attempt: Attempt, *, usage: Usage, cost_usd: Decimal | None) -> None:
        """Update what an open attempt is booked at if it is lost."""
        ...

    async def answer(
        self,
        attempt: Attempt,
        *,
        usage: Usage,
        cost_usd: Decimal | None,
        reply: str,
        seconds: float,
        confirmed: bool = True,
    ) -> bool:
        """Store row and reply in one transaction; False when another reply was first.

        `confirmed` says whether the usage is the provider's own word.
        The later reply is kept as a `duplicate` row: it was paid for, and is never used.
        """
        ...

    async def fail(
        self,
        attempt: Attempt,
        *,
        usage: Usage,
        cost_usd: Decimal | None,
        seconds: float,
        lost: bool = False,
        sent: bool = True,
        confirmed: bool = True,
    ) -> None:
        """Close an attempt that failed, with what it used; `lost` books what was expected instead.

        `confirmed` says whether the usage is the provider's own word.
        One that was never sent keeps its row, and is no call in any sum.
        """
        ...

    async def failures(self, key: str) -> int:
        """The number of attempts of a key that failed, including those that were never sent."""
        ...

    async def traces(self, key: str) -> tuple[int, int]:
        """How many attempts of a key ended by their worker's word, and how many have no end.

        The worker of the latter may have died over them.
        """
        ...

    async def failing_for(self, key: str) -> float:
        """Seconds since a key's first failed attempt; 0 if none failed."""
        ...

    async def account(self, key: str) -> AttemptTotals:
        """The sum over all attempts of a key as they stand."""
        ...

    async def reconcile(self, key: str) -> AttemptTotals:
        """Mark open rows of the key lost, and sum it."""
        ...

    async def unended(self, *, before: datetime) -> list[AttemptRow]:
        """Attempts of any run that began before a time and have no end, oldest first."""
        ...

    async def seal_and_sum(self, execution: str) -> AttemptTotals:
        """Refuse new attempts of this execution from now on, mark open ones lost, and sum it."""
        ...

    async def seal_tree(self, *, root: str, run: str) -> list[AttemptRow]:
        """Refuse new attempts of a run and of all below it from now on, and return their rows.

        Open attempts are marked lost; what was returned is never corrected.
        """
        ...

    async def seal_lives(self, *, root: str, run: str, current: str, before: str) -> None:
        """Refuse new attempts of a run's other executions from now on, and mark open ones lost.

        Args:
            root: the root of the run's tree.
            run: the run; those below it are not touched.
            current: the one execution that may go on.
            before: an execution that may have opened no attempt yet.
        """
        ...

    async def rows(self, run: str) -> list[AttemptRow]:
        """All rows of a run (its workflow id), oldest first."""
        ...

    async def tree(self, *, root: str, run: str) -> list[AttemptRow]:
        """All rows of a run and of the runs below it in the tree of `root`, oldest first."""
        ...

    async def progress(self, runs: Collection[str]) -> list[CallProgress]:
        """The newest call of each execution of these runs."""
        ...

    async def spent(self, roots: Collection[str]) -> dict[str, float | None]:
        """What the trees of these roots spent on calls that ended; None where a price is unknown.

        Roots without calls are left out.
        """
        ...

    async def has_spent(self, run: str) -> bool:
        """Whether a model was ever called for this run."""
        ...

    async def is_used(self, run: str) -> bool:
        """Whether the books name a run, or one of its tree: with a call, a seal or a tombstone."""
        ...

    async def failing_models(self, models: Collection[str], *, since: datetime) -> set[str]:
        """Models whose newest attempt of any run began after `since` and failed."""
        ...

    async def replies(self, run: str) -> dict[str, str]:
        """The addresses of the replies to a run's calls, by the key of each call."""
        ...
