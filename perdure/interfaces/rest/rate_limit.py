"""How often one caller may ask: a bucket that refills steadily."""

import time
from collections import OrderedDict
from collections.abc import Callable

CALLERS_KEPT = 10_000


class Rates:
    """A bucket of a minute's requests for each caller; the longest unseen are forgotten.

    Args:
        per_minute: how many requests a bucket holds, and how many it gets back in a minute.
        clock: seconds that only grow.
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = float(per_minute)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Take one request from the caller's bucket; the seconds to wait when it is empty."""
        now = self._clock()
        left, since = self._buckets.pop(caller, (self._size, now))
        left = min(self._size, left + (now - since) * self._size / 60)
        allowed = left >= 1
        self._buckets[caller] = (left - 1 if allowed else left, now)
        if len(self._buckets) > CALLERS_KEPT:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) * 60 / self._size
