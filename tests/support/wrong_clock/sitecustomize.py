"""Shifts the clock of a process before anything else is imported; its folder is put on the path."""

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from types import ModuleType

SHIFT = timedelta(hours=float(os.environ.get("WRONG_HOURS", "0")))
true_time = time.time


class _WrongClock(ModuleType):
    @staticmethod
    def utc_now() -> datetime:
        return datetime.now(UTC) + SHIFT


# In the place of the one module that stores and steps take their time from.
sys.modules["perdure.adapters.stores.clock"] = _WrongClock("perdure.adapters.stores.clock")
time.time = lambda: true_time() + SHIFT.total_seconds()
