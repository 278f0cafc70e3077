"""What happens when a step's store is away, its provider fails, or its worker is lost.

These are three policies and never share a count. A store is waited for as long as it takes. A
provider has so many attempts before the next model of the chain is asked. A lost worker counts
against nobody; an input that takes five workers with it is named, and a person decides.

`POLICIES` is the whole table; `docs/operations.md` shows it to people.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

StepKind = Literal["model", "repeatable_tool", "tool", "workspace", "bookkeeping", "notice"]

PROVIDER_ATTEMPTS = 8
LOST_WORKERS = 5
NOTICE_ATTEMPTS = 3
FOR_EVER = 0
# What a model call may take beside the provider's own time: reading, counting, storing.
MODEL_SLACK_S = 60.0
# What a step that waits for its store may take beyond its own limit: longer than any outage that
# people let stand. Its heartbeat tells a lost worker from one that waits.
STORE_PATIENCE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How one kind of step takes the three failures.

    Attributes:
        store: `in_hand`: the attempt itself waits, with what it has; `again`: it fails at once, and
            the server makes another one every half a minute, for ever.
        provider: attempts of a model before the next of the chain is asked; None where a step asks
            no provider.
        lost_workers: how many may be lost over one step before a person is asked; `FOR_EVER`: it is
            made again each time; 1: it is never made again, and the model is told that its effect
            is uncertain.
        attempts: what the server is told: how many attempts there may be of all kinds.
    """

    store: Literal["in_hand", "again"]
    provider: int | None
    lost_workers: int
    attempts: int

    @property
    def beats(self) -> bool:
        """Whether the step must beat: one that waits in hand may take long."""
        return self.store == "in_hand"


POLICIES: dict[StepKind, RetryPolicy] = {
    "model": RetryPolicy("in_hand", PROVIDER_ATTEMPTS, LOST_WORKERS, FOR_EVER),
    "repeatable_tool": RetryPolicy("in_hand", None, LOST_WORKERS, LOST_WORKERS),
    "tool": RetryPolicy("in_hand", None, 1, 1),
    "workspace": RetryPolicy("in_hand", None, LOST_WORKERS, LOST_WORKERS),
    "bookkeeping": RetryPolicy("again", None, FOR_EVER, FOR_EVER),
    "notice": RetryPolicy("again", None, NOTICE_ATTEMPTS, NOTICE_ATTEMPTS),
}


def own_limit(start_to_close: timedelta | None) -> float | None:
    """The seconds that a step may work, without the time it may wait for its store."""
    if start_to_close is None or start_to_close <= STORE_PATIENCE:
        return None
    return (start_to_close - STORE_PATIENCE).total_seconds()
