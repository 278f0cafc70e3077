"""Detects that the work is stuck or has converged, and says what to do about it.

Each delegation that ran adds a reading; planning, diagnosing and refused repeats add none.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

from perdure.domain.delegation.spec import StallSettings, StrategyName
from perdure.domain.evaluation.trajectory import rounded
from perdure.domain.foundation.base import FrozenModel

# Work may get better in steps: while the best of so many readings beats the best before, it is no
# stall.
EXTENDED_WINDOW = 6
DIRECTION_CHANGES = 3
LOW_MEAN = 0.7
# A best result this far above that of the last switch makes all strategies available again.
REAL_PROGRESS = 0.1

Signal = Literal["ok", "warn", "switch_strategy", "stop"]


class Measurement(FrozenModel):
    """One delegation that ran.

    Args:
        confidence: its mean; 0 when every worker crashed.
        output: the address of what its workers wrote, None for nothing.
        findings: the hash of the set of their key findings, empty for none.
    """

    confidence: float
    output: str | None = None
    findings: str = ""


class Progress(FrozenModel):
    """The readings that count, and the strategies that were tried.

    `total` counts all readings of the run. `earlier` is the best of those since the last change of
    strategy that are no longer kept. `mark` is the best confidence when the pool of
    strategies was last touched: real progress is measured from there.
    """

    readings: tuple[Measurement, ...] = ()
    total: int = 0
    earlier: float | None = None
    warned: bool = False
    best: float | None = None
    mark: float | None = None
    used: tuple[StrategyName, ...] = ()
    strategy: StrategyName | None = None
    why: str = ""


class StallVerdict(FrozenModel):
    """The verdict after a reading; `strategy` is the one to switch to, `why` is for people."""

    signal: Signal
    why: str = ""
    strategy: StrategyName | None = None


def compared_with(progress: Progress, settings: StallSettings) -> Measurement | None:
    """The oldest reading of the window that the next one completes; None: it stays too short."""
    # The reading to come is the last of the window.
    needed = settings.window - 1
    return progress.readings[-needed] if len(progress.readings) >= needed else None


def after_reading(
    progress: Progress,
    reading: Measurement,
    *,
    similarity: float | None,
    settings: StallSettings,
    strategies: Sequence[StrategyName],
) -> tuple[Progress, StallVerdict]:
    """The progress with one more reading, and what it comes to.

    Args:
        progress: the readings so far.
        reading: the new one.
        similarity: its output against that of `compared_with`, from 0 to 1; None: not compared.
        settings: windows and thresholds.
        strategies: the pool; empty switches switching off.
    """
    seen = _with(progress, reading, settings)
    causes = _causes(seen, similarity, settings)
    # From `seen`: real progress has just made used strategies available again.
    left: list[StrategyName] = [name for name in strategies if name not in seen.used]
    verdict = _verdict(causes, warned=seen.warned, left=left)
    match verdict.signal:
        case "ok":
            return seen.model_copy(update={"warned": False}), verdict
        case "switch_strategy":
            return _switched(seen, verdict, settings), verdict
        case "warn" | "stop":
            return seen.model_copy(update={"warned": True}), verdict


def is_steady_rise(confidences: Sequence[float], settings: StallSettings) -> bool:
    """Whether each is above the one before, by steps that add up over the extended window.

    Slow steady improvement is no stall, though it may change little within one window.
    """
    steps = [rounded(later - earlier) for earlier, later in pairwise(confidences)]
    if not steps or min(steps) <= 0:
        return False
    mean = sum(steps) / len(steps)
    # Six readings have five steps.
    return rounded(mean * (EXTENDED_WINDOW - 1)) >= settings.min_confidence_delta


def gained(scores: Sequence[float], earlier: float | None) -> float:
    """The best of the last six readings less the best before them; below zero after a fall.

    While there are no more than six, less the first of them. A rise in steps, flat between them,
    is seen here. `earlier` is the best of readings before these.
    """
    recent, older = scores[-EXTENDED_WINDOW:], scores[:-EXTENDED_WINDOW]
    before = [*older, *([] if earlier is None else [earlier])] or recent[:1]
    return rounded(max(recent) - max(before)) if recent else 0.0


def rises_in_steps(scores: Sequence[float], earlier: float | None, settings: StallSettings) -> bool:
    """Whether two windows brought the smallest gain that counts, though one of them may be flat."""
    has_older = earlier is not None or len(scores) > EXTENDED_WINDOW
    # The first reading alone says little: what goes up and down again is no rise.
    falls = any(rounded(later - first) < 0 for first, later in pairwise(scores))
    return (has_older or not falls) and gained(scores, earlier) >= settings.min_confidence_delta


def oscillates(confidences: Sequence[float], best: float | None) -> bool:
    """Whether the newest six go up and down at a low level without a new best."""
    recent = confidences[-EXTENDED_WINDOW:]
    if len(recent) < EXTENDED_WINDOW:
        return False
    half = EXTENDED_WINDOW // 2
    early, late = max(recent[:half]), max(recent[half:])
    # The best of these six is no new best if an earlier one was better.
    has_new_best = late > early and (best is None or late >= best)
    mean = rounded(sum(recent) / len(recent))
    return _turns(recent) >= DIRECTION_CHANGES and not has_new_best and mean < LOW_MEAN


def _with(progress: Progress, reading: Measurement, settings: StallSettings) -> Progress:
    """The progress with one more reading; a real new best makes all strategies available again."""
    # Oscillation and rises in steps need six readings, however short the window is.
    kept = max(EXTENDED_WINDOW, settings.window)
    readings = (*progress.readings, reading)
    past = [one.confidence for one in readings[:-kept]]
    best = max(progress.best or 0.0, reading.confidence)
    mark = reading.confidence if progress.mark is None else progress.mark
    refilled = rounded(best - mark) >= REAL_PROGRESS
    return progress.model_copy(
        update={
            "readings": readings[-kept:],
            "total": progress.total + 1,
            "earlier": max((*past, progress.earlier or 0.0)) if past else progress.earlier,
            "best": best,
            "mark": best if refilled else mark,
            "used": () if refilled else progress.used,
        }
    )


def _causes(
    progress: Progress, similarity: float | None, settings: StallSettings
) -> tuple[str, ...]:
    """The channels that say that the work is stuck, each in words."""
    window = progress.readings[-settings.window :]
    if len(window) < settings.window:
        return ()
    scores = [reading.confidence for reading in progress.readings]
    causes = (_score_cause(scores, progress, settings), _output_cause(window, similarity, settings))
    return tuple(cause for cause in causes if cause)


def _score_cause(scores: Sequence[float], progress: Progress, settings: StallSettings) -> str:
    window = scores[-settings.window :]
    # Rounded, since 0.35 - 0.30 is less than 0.05 in floats.
    change = abs(rounded(window[-1] - window[0]))
    # First, since an oscillation has the large changes that would clear it below.
    if oscillates(scores, progress.best):
        return "confidence goes up and down without a new best"
    if change >= settings.min_confidence_delta or is_steady_rise(window, settings):
        return ""
    if rises_in_steps(scores, progress.earlier, settings):
        return ""
    return f"confidence changed by {change:g} over {len(window)} delegations"


def _output_cause(
    window: Sequence[Measurement], similarity: float | None, settings: StallSettings
) -> str:
    if window[0].output is None and window[-1].output is None:
        return "the workers hand back nothing"
    if similarity is None or similarity <= settings.similarity:
        return ""
    return f"the workers' outputs are {similarity:.0%} alike"


def _verdict(causes: Sequence[str], *, warned: bool, left: Sequence[StrategyName]) -> StallVerdict:
    why = " and ".join(causes)
    if not causes:
        return StallVerdict(signal="ok")
    is_stuck = len(causes) > 1
    if left and (is_stuck or warned):
        return StallVerdict(signal="switch_strategy", why=why, strategy=left[0])
    # One channel alone never ends a run, not even without a strategy left.
    return StallVerdict(signal="stop" if is_stuck else "warn", why=why)


def _switched(progress: Progress, verdict: StallVerdict, settings: StallSettings) -> Progress:
    used = progress.used if verdict.strategy is None else (*progress.used, verdict.strategy)
    return progress.model_copy(
        update={
            "warned": False,
            "used": used,
            "strategy": verdict.strategy,
            "why": verdict.why,
            "mark": progress.best,
            "readings": () if settings.fresh_window else progress.readings,
            "earlier": None if settings.fresh_window else progress.earlier,
        }
    )


def _turns(values: Sequence[float]) -> int:
    """How often a series changes its direction."""
    steps = [rounded(later - earlier) for earlier, later in pairwise(values)]
    # A flat step is no turn: up, flat, up keeps its direction.
    moves = [step for step in steps if step]
    return sum((first > 0) != (second > 0) for first, second in pairwise(moves))


SMALL_CHANGE = 0.05
GOOD_ENOUGH = 0.95
# A new strategy gets this many readings before convergence is looked at again.
READINGS = 3
EARLIEST = 5
BEYOND_PENDING = 3


def why_converged(
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
    # Two suffice while the run has no more. After a change of strategy there must be three again.
    if len(recent) < min(READINGS, max(2, progress.total)):
        return None
    # Rising scores outweigh equal findings: a finding is one line, and a score looks at everything.
    scores = [reading.confidence for reading in progress.readings]
    if _improves(scores, settings) or _rises(scores[-READINGS:], settings):
        return None
    if scores and gained(scores, progress.earlier) >= settings.min_confidence_delta:
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
    # A slow rise is no stall, though the window alone changes too little.
    climbs = all(rounded(later - earlier) > 0 for earlier, later in pairwise(scores))
    enough = rounded(scores[-1] - scores[0]) >= settings.min_confidence_delta
    return len(scores) > 1 and climbs and (enough or is_steady_rise(scores, settings))


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
