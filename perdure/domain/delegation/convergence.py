"""Whether the results stopped changing at a level that may be all there is to get."""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

from perdure.domain.delegation.settings import StallSettings
from perdure.domain.delegation.stall import Measurement, Progress, is_steady_rise
from perdure.domain.evaluation.trajectory import rounded

SMALL_CHANGE = 0.05
GOOD_ENOUGH = 0.95
READINGS = 3
EARLIEST = 5
BEYOND_PENDING = 3


def convergence(
    progress: Progress, *, iteration: int, pending: int, settings: StallSettings
) -> str | None:
    """Why the work counts as converged; None while it does not.

    Args:
        progress: the readings since the strategy was last changed.
        iteration: the newest, from 1.
        pending: subtasks of the plan that are neither done nor failed.
        settings: of the stall, for what a steady rise is.
    """
    if iteration < max(EARLIEST, pending + BEYOND_PENDING):
        return None
    recent = progress.readings[-READINGS:]
    if len(recent) < min(READINGS, max(2, progress.total)):
        return None
    scores = [reading.confidence for reading in progress.readings]
    if _improves(scores, settings) or _rises(scores[-READINGS:], settings):
        return None
    return _same_findings(recent) or _plateau(recent, settings)


def findings_hash(findings: Iterable[str]) -> str:
    """One name for a set of key findings, empty for an empty set."""
    said = sorted({" ".join(item.casefold().split()) for item in findings if item.strip()})
    if not said:
        return ""
    return hashlib.sha256("\n".join(said).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _improves(scores: Sequence[float], settings: StallSettings) -> bool:
    """Whether the newest is better than all before it, by the smallest gain that counts."""
    *before, newest = scores
    return bool(before) and rounded(newest - max(before)) >= settings.min_confidence_delta


def _rises(scores: Sequence[float], settings: StallSettings) -> bool:
    """Whether the work gets better, whatever its findings say: each reading above the last."""
    climbs = all(rounded(later - earlier) > 0 for earlier, later in pairwise(scores))
    gained = rounded(scores[-1] - scores[0]) >= settings.min_confidence_delta
    return len(scores) > 1 and climbs and (gained or is_steady_rise(scores, settings))


def _same_findings(recent: Sequence[Measurement]) -> str | None:
    found = {reading.findings for reading in recent}
    if len(recent) < READINGS or len(found) > 1 or "" in found:
        return None
    return f"the same findings {len(recent)} times"


def _plateau(recent: Sequence[Measurement], settings: StallSettings) -> str | None:
    scores = [reading.confidence for reading in recent]
    last = scores[-1]
    moved = abs(rounded(last - scores[-2])) >= SMALL_CHANGE
    rose = rounded(max(scores) - scores[0]) >= SMALL_CHANGE
    if moved or rose or not 0 < last < GOOD_ENOUGH or is_steady_rise(scores, settings):
        return None
    return f"confidence stays at {last:.2f}"
