"""How knowledge fades: from its original confidence by the weeks since it was last used.

Nothing is written back, so fading never compounds: the same entry at the same moment always has
the same confidence left, however often somebody looked at it.
"""

import math
from datetime import datetime, timedelta

from perdure.domain.memory.entries import Remembered

FADING_PER_WEEK = 0.05
FORGOTTEN_BELOW = 0.1
HALF_AS_RECENT_WEEKS = 26.0

_WEEK = timedelta(weeks=1)


def confidence_left(entry: Remembered, now: datetime) -> float:
    """Original × e^(−0.05 × idle weeks); an entry that nobody has used keeps its own."""
    if entry.last_used is None:
        return entry.confidence
    return entry.confidence * math.exp(-FADING_PER_WEEK * _weeks(entry.last_used, now))


def is_faded(entry: Remembered, now: datetime) -> bool:
    """Whether too little confidence is left for the entry to be shown."""
    return confidence_left(entry, now) < FORGOTTEN_BELOW


def fades_at(entry: Remembered) -> datetime | None:
    """When the entry will have faded, or None while it does not fade."""
    if entry.confidence < FORGOTTEN_BELOW:
        return entry.created
    if entry.last_used is None:
        return None
    weeks = math.log(entry.confidence / FORGOTTEN_BELOW) / FADING_PER_WEEK
    return entry.last_used + timedelta(weeks=weeks)


def recency(entry: Remembered, now: datetime) -> float:
    """1 for what was made or used just now, a half after half a year, never 0."""
    touched = max(entry.created, entry.last_used or entry.created)
    return 1 / (1 + _weeks(touched, now) / HALF_AS_RECENT_WEEKS)


def _weeks(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since) / _WEEK)
