"""How long a step of work has waited for its store: such time is no time of the work."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Patience:
    """One step's waits; times are seconds of the caller's monotonic clock.

    `why` says what is waited for now, empty when nothing is.
    """

    why: str = ""
    total: float = 0.0
    since: float = 0.0
    waiting: int = 0

    @contextmanager
    def wait(self, why: str, clock: Callable[[], float]) -> Generator[None]:
        """Count the time of the block; overlapping waits of one step count once."""
        if not self.waiting:
            self.since = clock()
        self.waiting += 1
        self.why = why
        try:
            yield
        finally:
            self.waiting -= 1
            if not self.waiting:
                self.total += clock() - self.since
                self.why = ""

    def waited(self, now: float) -> float:
        """All the time waited until now."""
        return self.total + (now - self.since if self.waiting else 0.0)


# The field of a heartbeat that says what the step waits for.
WAITS = "waits"
# Set in steps that can wait with what they have in hand, because they beat; None elsewhere.
PATIENCE: ContextVar[Patience | None] = ContextVar("perdure_patience", default=None)


@contextmanager
def impatient() -> Generator[None]:
    """A block whose stores fail at once when they are away: what it writes is advisory only."""
    token = PATIENCE.set(None)
    try:
        yield
    finally:
        PATIENCE.reset(token)
