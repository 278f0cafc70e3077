"""What other settings of a loop would have cost and brought, replayed on recorded scores.

An estimate: a loop that was stopped by a setting shows nothing of what would have come after, so
only settings that stop no later than the recorded run did can be replayed.
"""

from collections.abc import Sequence
from decimal import Decimal

from pydantic import ValidationError

from perdure.domain.evaluation.trajectory import PERFECT, Trajectory
from perdure.domain.experiments.plan import Entry, Fields, Plan, differing, trial_task
from perdure.domain.experiments.trials import Step, Trial, total_usd
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.refine.spec import RefineSettings

QUALITIES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
IMPROVEMENTS = (0.0, 0.01, 0.02, 0.05, 0.1)
AS_GOOD = 0.01
"""A mean score so close to the best one counts as no worse."""


class Setting(FrozenModel):
    """When a loop stops: after so many iterations, at this score, or when it improves too little.

    `improvement_threshold` of 0 never stops it.
    """

    max_iterations: int
    quality_threshold: float
    improvement_threshold: float = 0.0


class Estimate(FrozenModel):
    """What a setting would have brought: means over the recorded runs."""

    setting: Setting
    score: float
    tokens: float
    cost_usd: Decimal | None
    iterations: float


class ThresholdStudy(FrozenModel):
    """Estimates for one arm, the cheapest first, and the one to recommend.

    `longest` is what the longest recorded run did.
    """

    arm: str
    runs: int
    longest: int
    estimates: tuple[Estimate, ...]
    recommended: Estimate


def trajectories(steps: Sequence[Step]) -> tuple[Trajectory, ...]:
    """What the loop knew after each iteration of a run."""
    after: list[Trajectory] = []
    for step in steps:
        after.append((after[-1] if after else Trajectory()).after(step.score))
    return tuple(after)


def stopped_after(run: Sequence[Trajectory], setting: Setting) -> int:
    """After how many iterations a run that went so ends under a setting, at least 1.

    By the rules of the loop: a gain is measured from score to score, and an iteration without a
    score ends nothing.
    """
    for done, known in enumerate(run[: setting.max_iterations], start=1):
        if _ends(known, setting):
            return done
    return min(len(run), setting.max_iterations)


def _ends(known: Trajectory, setting: Setting) -> bool:
    """Whether a score ends a run under a setting."""
    least = setting.improvement_threshold
    return known.has_reached(setting.quality_threshold) or bool(
        least and known.is_diminishing(least)
    )


def recorded_settings(plan: Plan, entries: Sequence[Entry]) -> dict[str, Setting]:
    """The setting that all runs of an arm had, by the arm's name.

    Arms whose inputs set different ones are left out, and those that end by other rules.
    """
    different = differing(entries)
    found: dict[str, Setting] = {}
    for arm in plan.arms:
        settings = [_setting_of(trial_task(arm, entry, label="")) for entry in different]
        one = settings[0] if settings else None
        if one is not None and all(other == one for other in settings):
            found[arm.name] = one
    return found


def _setting_of(task: Fields) -> Setting | None:
    """The setting of a task; None where other rules end its runs, such as a termination tree."""
    if task.get("kind") != "refine":
        return None
    try:
        refine = RefineSettings.model_validate(task.get("refine") or {})
    except ValidationError:  # a stored task may have fields of another version
        return None
    if refine.termination is not None:
        return None
    gains = refine.improvement_threshold if refine.pattern == "confidence" else None
    return Setting(
        max_iterations=refine.max_iterations,
        # Without a threshold the loop ends at a full score all the same.
        quality_threshold=refine.quality_threshold or PERFECT,
        improvement_threshold=gains or 0.0,
    )


def study(
    arm: str, trials: Sequence[Trial], recorded: Setting | None = None
) -> ThresholdStudy | None:
    """Estimates for one arm.

    Args:
        arm: its name.
        trials: those of all arms.
        recorded: the setting that its runs had; None where it is not known, or not the same.

    Returns:
        None where no run of it went beyond one scored iteration, or no setting that can be
        replayed is as good as what was recorded.
    """
    runs = [
        one.steps
        for trial in trials
        if trial.arm == arm and trial.counts
        for one in trial.tries
        if any(step.score is not None for step in one.steps)
    ]
    longest = max((len(steps) for steps in runs), default=0)
    if longest < 2:  # one iteration leaves nothing to stop earlier
        return None
    found = _estimates(runs, recorded, longest)
    # The cheapest first, of equal ones the best: what is recommended and the frontier go by it.
    ordered = _without_repeats(sorted(found, key=lambda one: (one.tokens, -one.score)))
    aim = _mean_score(runs) - AS_GOOD
    recommended = next((one for one in ordered if one.score >= aim), None)
    if recommended is None:
        return None
    return ThresholdStudy(
        arm=arm,
        runs=len(runs),
        longest=longest,
        estimates=_frontier(ordered),
        recommended=recommended,
    )


def _estimates(
    runs: Sequence[Sequence[Step]], recorded: Setting | None, longest: int
) -> list[Estimate]:
    """What each setting that can be replayed would have brought."""
    # Run by run: the trajectories of all runs at once would need much room.
    if recorded is not None and any(
        stopped_after(went, recorded) < len(went) for went in map(trajectories, runs)
    ):
        recorded = None  # some run went on where this setting ends it, as with a checklist
    settings = _stopping_earlier(recorded, longest) if recorded else _all(longest)
    ends = [
        [_replayed(went, one, known=recorded is not None) for one in settings]
        for went in map(trajectories, runs)
    ]
    found: list[Estimate] = []
    for setting, after in zip(settings, zip(*ends, strict=True), strict=True):
        known = [end for end in after if end is not None]
        if len(known) == len(runs):
            kept = [steps[:end] for steps, end in zip(runs, known, strict=True)]
            found.append(_estimate(kept, setting))
    return found


def _stopping_earlier(recorded: Setting, longest: int) -> list[Setting]:
    """The recorded setting, and those under which no run goes on where it ended."""
    quality, least = recorded.quality_threshold, recorded.improvement_threshold
    return [
        Setting(max_iterations=most, quality_threshold=reached, improvement_threshold=gain)
        # From the longest run on all limits do the same, so the recorded one stands for them.
        for most in (*range(1, longest), recorded.max_iterations)
        for reached in (*(one for one in QUALITIES if one < quality), quality)
        for gain in (least, *(one for one in IMPROVEMENTS if one > least))
    ]


def _all(longest: int) -> list[Setting]:
    return [
        Setting(max_iterations=most, quality_threshold=reached, improvement_threshold=gain)
        for most in range(1, longest + 1)
        for reached in QUALITIES
        for gain in IMPROVEMENTS
    ]


def _replayed(run: Sequence[Trajectory], setting: Setting, *, known: bool) -> int | None:
    """After how many iterations a run ends under a setting; None where its scores do not say.

    `known`: the run's own setting is known to end it no earlier than this one.
    """
    end = stopped_after(run, setting)
    if known or end == setting.max_iterations or _ends(run[end - 1], setting):
        return end
    return None  # it ended by what it was set to, and would have gone on under this setting


def _estimate(kept: Sequence[Sequence[Step]], setting: Setting) -> Estimate:
    """The means over what a setting keeps of the runs."""
    count = len(kept)
    cost = total_usd([step.cost_usd for steps in kept for step in steps])
    return Estimate(
        setting=setting,
        score=_mean_score(kept),
        tokens=round(sum(step.tokens for steps in kept for step in steps) / count, 1),
        cost_usd=None if cost is None else round(cost / count, 6),
        iterations=round(sum(len(steps) for steps in kept) / count, 2),
    )


def _mean_score(kept: Sequence[Sequence[Step]]) -> float:
    """The mean over runs of the best score of each."""
    return round(sum(max(step.score or 0.0 for step in steps) for steps in kept) / len(kept), 4)


def _without_repeats(estimates: Sequence[Estimate]) -> list[Estimate]:
    """One setting of those that would have done the same: the recorded one, or the nearest to it.

    As no setting stops later than the recorded one, the one that stops last is the nearest.
    """
    seen: dict[tuple[float, float], Estimate] = {}
    for one in estimates:
        known = seen.get((one.tokens, one.score))
        if known is None or _earliness(one.setting) < _earliness(known.setting):
            seen[one.tokens, one.score] = one
    return list(seen.values())


def _earliness(setting: Setting) -> tuple[float, int, float]:
    return (setting.improvement_threshold, -setting.max_iterations, -setting.quality_threshold)


def _frontier(ordered: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """The settings whose score no cheaper setting reaches."""
    kept: list[Estimate] = []
    for one in ordered:
        if not kept or one.score > kept[-1].score:
            kept.append(one)
    return tuple(kept)
