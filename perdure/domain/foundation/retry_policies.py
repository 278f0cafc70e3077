"""Retry policies: the store is away, the provider fails, or the worker is lost.

The three never share a counter. A step waits for its store as long as it takes. A provider gets few
attempts while another model can be asked, and more if none is left. A lost worker does not count as
a failure, but after five of them over one step the run names the step and asks a person. What a
network swallowed, with no sign of a worker, counts for a fifth.

`POLICIES` is the whole table; `docs/outages.md` shows it to people.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from perdure.domain.foundation.base import FrozenModel


class StoreWait(FrozenModel):
    """What a step that waits for its store says in its heartbeat.

    `waits` is why, `waited_s` for how long by now, `tried` how often the store has failed.
    """

    waits: str
    waited_s: float = 0.0
    tried: int = 1


@dataclass(slots=True)
class Patience:
    """One step's time with its store; times are seconds of the caller's monotonic clock.

    All of an operation counts, not only the pauses after it failed: it may stand in a queue, or
    before a lock, for as long as the store is away, and then succeed. A step that does not beat
    `can_wait` for nothing: its operations fail, and the server repeats it. `why` says what is
    waited for now, empty while nothing has failed; `tried` counts in vain tries of this wait.
    """

    can_wait: bool = True
    why: str = ""
    total: float = 0.0
    since: float = 0.0
    open: int = 0
    away_since: float = 0.0
    waiting: int = 0
    tried: int = 0

    @contextmanager
    def in_store(self, clock: Callable[[], float]) -> Generator[None]:
        """Count the time of the block; overlapping operations of one step count once."""
        if not self.open:
            self.since = clock()
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1
            if not self.open:
                self.total += clock() - self.since

    @contextmanager
    def wait(self, why: str, clock: Callable[[], float]) -> Generator[None]:
        """Say that the store is away, and count the time of the block."""
        if not self.waiting:
            self.away_since = clock()
            self.tried = 0
        self.waiting += 1
        self.note_failure(why)
        try:
            with self.in_store(clock):
                yield
        finally:
            self.waiting -= 1
            if not self.waiting:
                self.why = ""

    def note_failure(self, why: str) -> None:
        """Count one try that failed, and keep why."""
        self.tried += 1
        self.why = why

    def store_seconds(self, now: float) -> float:
        """All the time with the store until now."""
        return self.total + (now - self.since if self.open else 0.0)

    def store_wait(self, now: float) -> StoreWait | None:
        """What others are told while the store is away; None while it answers."""
        if not self.waiting:
            return None
        waited = round(now - self.away_since, 1)
        return StoreWait(waits=self.why, waited_s=waited, tried=self.tried)


# Set in every step of a worker; None elsewhere, as at the interfaces.
PATIENCE: ContextVar[Patience | None] = ContextVar("perdure_patience", default=None)


@contextmanager
def count_as_store_time(clock: Callable[[], float]) -> Generator[None]:
    """A block that is with the store in whatever it does; `clock` as for `Patience`."""
    patience = PATIENCE.get()
    if patience is None:
        yield
        return
    with patience.in_store(clock):
        yield


@contextmanager
def impatient() -> Generator[None]:
    """A block whose stores fail at once when they are away: what it writes is advisory only."""
    token = PATIENCE.set(None)
    try:
        yield
    finally:
        PATIENCE.reset(token)


StepKind = Literal["model", "repeatable_tool", "tool", "workspace", "bookkeeping", "notice", "hook"]

PROVIDER_ATTEMPTS = 8
# For a model that has a fallback: waiting gains nothing if another model would answer.
FAILOVER_ATTEMPTS = 2
FAILOVER_AFTER_S = 20.0
RECOVERY_ATTEMPTS = 1
LOST_WORKERS = 5
# How many rounds of lost attempts may pass without a sign of any worker before a person is asked: a
# network outage of some minutes swallows attempts, and the step's input is not to blame.
UNHEARD_ROUNDS = 5
NOTICE_ATTEMPTS = 3
HOOK_ATTEMPTS = 3
FOR_EVER = 0
# What a model call may take beside the provider's own time: reading, counting, storing.
MODEL_SLACK_S = 60.0
# How long a held-out check of an experiment may take for one output.
CHECK_S = 600.0
# How long one image or PDF of a task is looked into at most, with the start of the process for it.
FILE_S = 12.0
# How long a step may wait for its store beyond its own limit: longer than any outage that people
# would tolerate. Its heartbeat tells a waiting worker from a lost one.
STORE_PATIENCE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How one kind of step takes the three failures.

    Attributes:
        store: `in_hand`: the attempt itself waits, with what it has; `again`: it fails at once, and
            the server makes another one every half a minute, for ever.
        provider: attempts of a model that has no fallback; None where a step asks no provider.
        failover: attempts of a model before the next of the chain is asked.
        failover_after_s: how long, in seconds from its first failure, the next of the chain waits
            at most.
        lost_workers: how many may be lost over one step before a person is asked; `FOR_EVER`: it is
            made again each time; 1: it is never made again, and the model is told that its effect
            is uncertain.
        attempts: what the server is told: how many attempts there may be of all kinds.
    """

    store: Literal["in_hand", "again"]
    provider: int | None
    lost_workers: int
    attempts: int
    failover: int | None = None
    failover_after_s: float | None = None

    @property
    def beats(self) -> bool:
        """Whether the step must beat: one that waits in hand may take long."""
        return self.store == "in_hand"


POLICIES: dict[StepKind, RetryPolicy] = {
    "model": RetryPolicy(
        "in_hand",
        PROVIDER_ATTEMPTS,
        LOST_WORKERS,
        FOR_EVER,
        failover=FAILOVER_ATTEMPTS,
        failover_after_s=FAILOVER_AFTER_S,
    ),
    "repeatable_tool": RetryPolicy("in_hand", None, LOST_WORKERS, LOST_WORKERS),
    "tool": RetryPolicy("in_hand", None, 1, 1),
    "workspace": RetryPolicy("in_hand", None, LOST_WORKERS, LOST_WORKERS),
    "bookkeeping": RetryPolicy("again", None, FOR_EVER, FOR_EVER),
    "notice": RetryPolicy("again", None, NOTICE_ATTEMPTS, NOTICE_ATTEMPTS),
    "hook": RetryPolicy("in_hand", None, HOOK_ATTEMPTS, HOOK_ATTEMPTS),
}


def is_last(
    *, failures: int, tries: int, waited_s: float, pause_s: float, patience_s: float | None
) -> bool:
    """Whether this was the last attempt that a provider gets for one call.

    Args:
        failures: how often it failed by now.
        tries: how often it may.
        waited_s: the time since its first failure.
        pause_s: how long it would be left alone before it is asked again.
        patience_s: how long the call waits for it in all, from its first failure on; None: as long
            as it has tries.
    """
    # The pause counts: that a provider wants to be left alone for a minute is no reason to wait if
    # another model would answer at once.
    return failures >= tries or (patience_s is not None and waited_s + pause_s > patience_s)


def own_limit(start_to_close: timedelta | None) -> float | None:
    """The seconds that a step may work, without the time it may wait for its store."""
    if start_to_close is None or start_to_close <= STORE_PATIENCE:
        return None
    return (start_to_close - STORE_PATIENCE).total_seconds()
