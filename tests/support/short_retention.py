"""A worker plugin that keeps ended runs and new blobs for seconds, not for days and an hour.

`KEPT_S` is how long after their end runs with the label `short` are kept, `YOUNG_S` how long a blob
is safe that nothing names yet.
"""

import os
from datetime import datetime, timedelta
from typing import Any

from perdure.domain.retention.rules import RetentionRule
from perdure.operations import gc

LABEL = "short"
AT_ONCE = (RetentionRule(days=0, label=LABEL),)
_collect = gc.collect


async def collect(*args: Any, now: datetime, **_: Any) -> Any:
    kept = timedelta(seconds=float(os.environ["KEPT_S"]))
    young = timedelta(seconds=float(os.environ["YOUNG_S"]))
    return await _collect(*args, now=now - kept, dry_run=False, young=young, rules=AT_ONCE)


if "KEPT_S" in os.environ:
    gc.collect = collect  # type: ignore[assignment]
