"""What an experiment would run and could cost, before anything starts."""

from collections.abc import Sequence
from decimal import Decimal

from perdure.domain.experiments.plan import INPUT, Arm, Entry, ExperimentBudget, Plan
from perdure.domain.foundation.base import FrozenModel

SHOWN_NAMES = 20


class PlannedArm(FrozenModel):
    """An arm: `about` says how often it tries; what each of its runs may spend, None: unlimited."""

    name: str
    about: str = ""
    most_usd: Decimal | None = None
    most_tokens: int | None = None


class PlannedExperiment(FrozenModel):
    """An experiment that was looked over and not started.

    `judge` is what each run of a judge may spend, one for each run of an arm.
    `fields` are the named inputs of the task that each input fills, `names` those of the first
    inputs. `most_usd` is what all runs may spend together; None where nothing limits that.
    """

    type: str = "planned_experiment"
    name: str
    inputs: int
    names: tuple[str, ...]
    fields: tuple[str, ...]
    repeats: int
    parallel: int
    trials: int
    arms: tuple[PlannedArm, ...]
    judge: PlannedArm | None = None
    scored_by: str
    budget: ExperimentBudget
    most_usd: Decimal | None = None
    notes: tuple[str, ...] = ()


def planned(plan: Plan, entries: Sequence[Entry], *, notes: Sequence[str]) -> PlannedExperiment:
    """Describe the plan in figures; its arms must be bounded already."""
    return PlannedExperiment(
        name=plan.name,
        inputs=len(entries),
        names=tuple(entry.name for entry in entries[:SHOWN_NAMES]),
        fields=tuple(entries[0].context) or ((INPUT,) if entries[0].goal is None else ()),
        repeats=plan.repeats,
        parallel=plan.parallel,
        trials=len(entries) * plan.trials_per_input,
        arms=tuple(_arm(arm) for arm in plan.arms),
        judge=_judge(plan),
        scored_by=plan.scoring.by,
        budget=plan.budget,
        most_usd=_most_usd(plan, len(entries)),
        notes=tuple(notes),
    )


def _arm(arm: Arm) -> PlannedArm:
    about = "" if arm.tries is None else arm.tries.in_words
    return PlannedArm(
        name=arm.name, about=about, most_usd=arm.most_usd, most_tokens=arm.most_tokens
    )


def _judge(plan: Plan) -> PlannedArm | None:
    if plan.scoring.judge is None:
        return None
    held = plan.scoring.judge.held
    return PlannedArm(
        name="judge",
        about="once for each run",
        most_usd=held.cost_usd,
        most_tokens=held.tokens,
    )


def _most_usd(plan: Plan, inputs: int) -> Decimal | None:
    """The budget, or the sum over all runs if that is less; None where nothing limits that."""
    runs = [
        (plan.held(arm).cost_usd, 1 if arm.tries is None else arm.tries.count) for arm in plan.arms
    ]
    known = [most * count for most, count in runs if most is not None and count is not None]
    # Zero is no limit.
    limits = [plan.budget.cost_usd] if plan.budget.cost_usd else []
    # An arm that may spend what another arm spent has no fixed number of tries.
    if len(known) == len(runs):
        limits.append(sum(known, Decimal(0)) * inputs * plan.repeats)
    return min(limits, default=None)
