"""The report of an experiment: what each arm achieved and cost, and whether one beats another.

An input without a counted trial of an arm is left out of that arm's comparisons. A failed run
scores 0: a loop that gives up is no better than one that is wrong. An output that could not be
scored is left out, because a judge without an answer says nothing about it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import combinations
from statistics import fmean

from perdure.domain.evaluation.trajectory import rounded
from perdure.domain.experiments.plan import Plan
from perdure.domain.experiments.thresholds import Setting, ThresholdStudy, study
from perdure.domain.experiments.trials import Trial, total_usd
from perdure.domain.foundation.base import FrozenModel
from perdure.interfaces.experiments.disagreement import arm_warnings, marks, winner_warning
from perdure.interfaces.experiments.sentences import sentence
from perdure.interfaces.experiments.statistics import (
    Agreement,
    Interval,
    agreement,
    interval,
    labelled,
)

SHOWN_LOSSES = 50
SHOWN_WHYS = 3


class ArmFigures(FrozenModel):
    """Means over the counted trials of an arm; `by_iteration` is the best own score so far.

    `failed`: trials that brought nothing to score; `failures` says why, the most frequent first.
    `unscored`: those whose output nobody could score; scores leave them out, spend does not.
    `unscored_why` says why, the most frequent first.
    `on_frontier`: no other arm is as good for less.
    """

    name: str
    about: str = ""
    trials: int = 0
    failed: int = 0
    failures: tuple[str, ...] = ()
    stopped: int = 0
    unscored: int = 0
    unscored_why: tuple[str, ...] = ()
    score: Interval = Interval(mean=0.0)
    own_score: float | None = None
    passed: float = 0.0
    tokens: float = 0.0
    cost_usd: Decimal | None = Decimal(0)
    total_usd: Decimal | None = Decimal(0)
    seconds: float = 0.0
    model_calls: float = 0.0
    iterations: float = 0.0
    by_iteration: tuple[float, ...] = ()
    on_frontier: bool = False


class PairFigures(FrozenModel):
    """One arm against another over the inputs that both have: `better` minus `worse`.

    `sentence` says it in words. `spend` is the tokens of `better` divided by those of `worse`; None
    where `worse` used none.
    """

    better: str
    worse: str
    difference: Interval
    wins: int
    losses: int
    ties: int
    spend: float | None
    sentence: str


class Loss(FrozenModel):
    """An input where an arm was worse than another, with the runs to look at."""

    arm: str
    against: str
    entry: str
    by: float
    runs: tuple[str, ...]
    other_runs: tuple[str, ...]


class ExperimentReport(FrozenModel):
    """All of it; `warnings` come first wherever it is shown."""

    type: str = "experiment_report"
    id: str
    name: str
    state: str
    scored_by: str
    inputs: int
    repeats: int
    trials: int
    ended: int
    warnings: tuple[str, ...] = ()
    arms: tuple[ArmFigures, ...] = ()
    pairs: tuple[PairFigures, ...] = ()
    losses: tuple[Loss, ...] = ()
    thresholds: tuple[ThresholdStudy, ...] = ()
    judge: Agreement | None = None
    spent_tokens: int = 0
    spent_usd: Decimal | None = Decimal(0)


def report(
    plan: Plan,
    trials: Sequence[Trial],
    *,
    id: str,
    state: str,
    entries: Sequence[str],
    settings: Mapping[str, Setting] | None = None,
) -> ExperimentReport:
    """Build the report.

    Args:
        plan: what was to be run.
        trials: what came of it, in any order.
        id: the experiment.
        state: how it stands, in a word.
        entries: the names of the inputs, in their order.
        settings: when the runs of an arm end, by its name; without those that are not known.
    """
    # Trials end in any order, and sums of floats and the bootstrap depend on it.
    ordered = sorted(trials, key=lambda trial: trial.number)
    counted = {arm.name: _counted(plan, ordered, arm.name) for arm in plan.arms}
    figures = [_arm(plan, arm.name, ordered) for arm in plan.arms]
    price = _price_in_one_unit(figures)
    arms = tuple(
        one.model_copy(update={"on_frontier": _leads(one, figures, price)}) for one in figures
    )
    pairs = [_pair(plan, first, second, counted) for first, second in combinations(arms, 2)]
    return ExperimentReport(
        id=id,
        name=plan.name,
        state=state,
        scored_by=plan.scoring.by,
        inputs=len(entries),
        repeats=plan.repeats,
        trials=len(entries) * plan.trials_per_input,
        ended=sum(trial.ended for trial in ordered),
        warnings=(*_disagreements(plan, ordered, pairs), *_failures(id, arms), *_unscored(arms)),
        arms=arms,
        pairs=tuple(pairs),
        losses=tuple(_losses(plan, pairs, counted, entries)),
        thresholds=tuple(
            found
            for arm in plan.arms
            if arm.tries is None  # each of several has one iteration: none could stop earlier
            and (found := study(arm.name, ordered, (settings or {}).get(arm.name)))
        ),
        judge=agreement(labelled(plan, ordered)),
        spent_tokens=sum(trial.spent_tokens for trial in ordered),
        spent_usd=total_usd([trial.spent_usd for trial in ordered]),
    )


def score_of(plan: Plan, trial: Trial) -> float:
    """The score with which a trial counts."""
    chosen = trial.chosen
    if chosen is None or chosen.failed:
        return 0.0
    return (chosen.held_out if plan.scoring.held_out else chosen.score) or 0.0


def passed(plan: Plan, trial: Trial) -> bool:
    """Whether a trial's output is good enough."""
    chosen = trial.chosen
    if chosen is None or chosen.failed:
        return False
    if plan.scoring.held_out:
        return (chosen.held_out or 0.0) >= plan.scoring.passes
    return chosen.met


def unscored(plan: Plan, trial: Trial) -> bool:
    """Whether a trial has an output that could not be scored."""
    chosen = trial.chosen
    return plan.scoring.held_out and chosen is not None and chosen.unscored


def _counted(plan: Plan, trials: Sequence[Trial], arm: str) -> dict[int, list[Trial]]:
    found: dict[int, list[Trial]] = {}
    for trial in trials:
        if trial.arm == arm and trial.counts and not unscored(plan, trial):
            found.setdefault(trial.entry, []).append(trial)
    return found


def _arm(plan: Plan, name: str, trials: Sequence[Trial]) -> ArmFigures:
    own = [trial for trial in trials if trial.arm == name and trial.ended]
    counted = [trial for trial in own if trial.counts]
    arm = plan.arm(name)
    figures = ArmFigures(
        name=name,
        about="" if arm.tries is None else arm.tries.in_words,
        trials=len(counted),
        stopped=len(own) - len(counted),
    )
    if not counted:
        return figures
    by_entry = _counted(plan, trials, name)
    scored = [trial for trials_of_entry in by_entry.values() for trial in trials_of_entry]
    cost = total_usd([trial.cost_usd for trial in counted])
    scores = [trial.chosen.score for trial in counted if trial.chosen is not None]
    known = [score for score in scores if score is not None]
    failed = [trial for trial in counted if _brought_nothing(plan, trial)]
    return figures.model_copy(
        update={
            "failed": len(failed),
            "failures": _reasons(failed),
            "unscored": len(counted) - len(scored),
            "unscored_why": _unscored_why(plan, counted),
            "score": interval([_mean(plan, of_entry) for of_entry in by_entry.values()]).of_scores,
            "own_score": round(fmean(known), 4) if known else None,
            "passed": round(sum(passed(plan, trial) for trial in scored) / (len(scored) or 1), 4),
            "tokens": round(fmean(trial.tokens for trial in counted), 1),
            "cost_usd": None if cost is None else round(cost / len(counted), 6),
            "total_usd": cost,
            "seconds": round(fmean(trial.seconds for trial in counted), 2),
            "model_calls": round(fmean(trial.model_calls for trial in counted), 2),
            "iterations": round(
                fmean(sum(len(one.steps) for one in trial.tries) for trial in counted), 2
            ),
            "by_iteration": _by_iteration(counted),
        }
    )


def _brought_nothing(plan: Plan, trial: Trial) -> bool:
    """Whether a trial has no output to score: it failed, or could not afford a draft."""
    chosen = trial.chosen
    if chosen is None or chosen.failed:
        return True
    # Without a rubric of its own, an output that nobody could score has no score at all.
    bare = chosen.score is None and chosen.held_out is None
    return bare and not unscored(plan, trial)


def _reasons(trials: Sequence[Trial]) -> tuple[str, ...]:
    """How trials ended, as `out_of_budget/cost (3)`, most frequent first."""
    chosen = [trial.chosen for trial in trials]
    ends = Counter("no run" if one is None else f"{one.outcome}/{one.reason}" for one in chosen)
    return tuple(f"{end} ({number})" for end, number in ends.most_common())


def _unscored_why(plan: Plan, trials: Sequence[Trial]) -> tuple[str, ...]:
    """Why outputs could not be scored, as `the check failed (3)`, most frequent first."""
    bare = [trial.chosen for trial in trials if unscored(plan, trial)]
    whys = Counter(one.why for one in bare if one is not None and one.why)
    return tuple(f"{why} ({number})" for why, number in whys.most_common(SHOWN_WHYS))


def _by_iteration(trials: Sequence[Trial]) -> tuple[float, ...]:
    """The mean best own score after each iteration; an ended run keeps its last score."""
    curves: list[list[float]] = []
    for trial in trials:
        best, curve = 0.0, list[float]()
        for step in (step for one in trial.tries for step in one.steps):
            best = max(best, step.score or 0.0)
            curve.append(best)
        curves.append(curve or [0.0])
    longest = max(len(curve) for curve in curves)
    # An arm without scores of its own has no curve; zeros would look like one.
    if not any(value for curve in curves for value in curve):
        return ()
    return tuple(
        round(fmean(curve[min(at, len(curve) - 1)] for curve in curves), 4) for at in range(longest)
    )


def _leads(
    arm: ArmFigures, others: Sequence[ArmFigures], price: Callable[[ArmFigures], float]
) -> bool:
    """Whether no other arm is as good for less, or better for as much; a score of 0 never leads."""
    return arm.score.mean > 0 and not any(
        other.trials > 0
        and (price(other), -other.score.mean) < (price(arm), -arm.score.mean)
        and other.score.mean >= arm.score.mean
        for other in others
        if other.name != arm.name
    )


def _price_in_one_unit(arms: Sequence[ArmFigures]) -> Callable[[ArmFigures], float]:
    """What arms cost: money if every cost is known and some arm is paid, else tokens for all."""
    in_money = all(arm.cost_usd is not None for arm in arms) and any(arm.cost_usd for arm in arms)
    # Never one arm by money and another by tokens: a model without a price would lead for nothing.
    return lambda arm: float(arm.cost_usd or 0) if in_money else arm.tokens


Counted = dict[str, dict[int, list[Trial]]]


def _pair(plan: Plan, first: ArmFigures, second: ArmFigures, counted: Counted) -> PairFigures:
    """Compare two arms, with the better one first."""
    # Pairs by input: what makes an input hard is the same for both arms, and cancels out.
    shared = sorted(counted[first.name].keys() & counted[second.name].keys())
    differences = [
        _mean(plan, counted[first.name][entry]) - _mean(plan, counted[second.name][entry])
        for entry in shared
    ]
    swapped = bool(differences) and fmean(differences) < 0
    better, worse = (second, first) if swapped else (first, second)
    signed = [-one for one in differences] if swapped else differences
    found = interval(signed).of_differences
    wins, losses = sum(one > 0 for one in signed), sum(one < 0 for one in signed)
    spend = round(better.tokens / worse.tokens, 2) if worse.tokens else None
    return PairFigures(
        better=better.name,
        worse=worse.name,
        difference=found,
        wins=wins,
        losses=losses,
        ties=len(signed) - wins - losses,
        spend=spend,
        sentence=sentence(
            better.name,
            worse.name,
            found,
            tokens=(better.tokens, worse.tokens),
            losses=losses,
        ),
    )


def _mean(plan: Plan, trials: Sequence[Trial]) -> float:
    return rounded(fmean(score_of(plan, trial) for trial in trials))  # so that equal ones are equal


def _losses(
    plan: Plan, pairs: Sequence[PairFigures], counted: Counted, entries: Sequence[str]
) -> list[Loss]:
    """Inputs on which the better arm of a pair was worse, the worst first."""
    found: list[Loss] = []
    for pair in pairs:
        ours, theirs = counted[pair.better], counted[pair.worse]
        for entry in sorted(ours.keys() & theirs.keys()):
            by = _mean(plan, theirs[entry]) - _mean(plan, ours[entry])
            if by > 0:
                found.append(
                    Loss(
                        arm=pair.better,
                        against=pair.worse,
                        entry=entries[entry] if entry < len(entries) else str(entry + 1),
                        by=round(by, 4),
                        runs=_runs(ours[entry]),
                        other_runs=_runs(theirs[entry]),
                    )
                )
    return sorted(found, key=lambda loss: -loss.by)[:SHOWN_LOSSES]


def _runs(trials: Sequence[Trial]) -> tuple[str, ...]:
    return tuple(trial.chosen.run for trial in trials if trial.chosen is not None)


def _disagreements(
    plan: Plan, trials: Sequence[Trial], pairs: Sequence[PairFigures]
) -> tuple[str, ...]:
    """Where own scores contradict the held-out one; readers need this before any figures."""
    known = marks(plan, trials)
    found = [told for arm, by_entry in known.items() for told in arm_warnings(arm, by_entry)]
    found += [
        winner_warning(pair.better, pair.worse, known[pair.better], known[pair.worse])
        for pair in pairs
        if known and pair.difference.differs
    ]
    return tuple(filter(None, found))


def _failures(id: str, arms: Sequence[ArmFigures]) -> tuple[str, ...]:
    return tuple(
        f"{arm.failed} of {arm.trials} trials of {arm.name} brought nothing to score: "
        f"{', '.join(arm.failures)}. They count as a score of 0; `perdure list --label {id}` shows "
        "them."
        for arm in arms
        if arm.failed
    )


def _unscored(arms: Sequence[ArmFigures]) -> tuple[str, ...]:
    return tuple(
        f"{arm.unscored} of {arm.trials} outputs of {arm.name} could not be scored and are "
        f"left out of its score{': ' if arm.unscored_why else ''}{'; '.join(arm.unscored_why)}. "
        "The trials (CSV) say which."
        for arm in arms
        if arm.unscored
    )
