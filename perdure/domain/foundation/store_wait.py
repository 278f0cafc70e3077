"""How long a step has been with its store, at work or away: such time is no time of the work."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

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
        self.in_vain(why)
        try:
            with self.in_store(clock):
                yield
        finally:
            self.waiting -= 1
            if not self.waiting:
                self.why = ""

    def in_vain(self, why: str) -> None:
        """Count one try that failed, and keep why."""
        self.tried += 1
        self.why = why

    def waited(self, now: float) -> float:
        """All the time with the store until now."""
        return self.total + (now - self.since if self.open else 0.0)

    def told(self, now: float) -> StoreWait | None:
        """What others are told while the store is away; None while it answers."""
        if not self.waiting:
            return None
        waited = round(now - self.away_since, 1)
        return StoreWait(waits=self.why, waited_s=waited, tried=self.tried)


# Set in every step of a worker; None elsewhere, as at the doors.
PATIENCE: ContextVar[Patience | None] = ContextVar("perdure_patience", default=None)


@contextmanager
def no_work(clock: Callable[[], float]) -> Generator[None]:
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
