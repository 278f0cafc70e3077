"""How time runs in a soak: a short one has clocks that differ less, and keeps ended runs less."""

from dataclasses import dataclass
from datetime import timedelta

MOST_WRONG_S = 60.0
WRONG_SHARE = 0.1


@dataclass(frozen=True)
class Pace:
    """What follows from how many seconds runs are started.

    Hosts' clocks are `wrong_s` ahead and behind. Ended runs are `kept` and new blobs `young` for
    longer than the clocks are apart, or a collection would be right to drop what is needed.
    """

    seconds: float

    @property
    def wrong_s(self) -> float:
        """By how many seconds the clock of a host is wrong, either way."""
        return min(MOST_WRONG_S, self.seconds * WRONG_SHARE)

    @property
    def clocks(self) -> tuple[float, float]:
        """By how many minutes the clock of each host is wrong."""
        return (self.wrong_s / 60, -self.wrong_s / 60)

    @property
    def kept(self) -> timedelta:
        """How long after their end runs that are kept shortly are there at least."""
        return timedelta(seconds=3 * self.wrong_s)

    @property
    def young(self) -> timedelta:
        """How long a blob is safe that nothing names yet."""
        return timedelta(seconds=2 * self.wrong_s)
