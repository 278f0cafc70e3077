"""How well a loop judges itself: its own verdicts against labels that it never saw."""

from collections.abc import Sequence

from perdure.domain.experiments.plan import Plan
from perdure.domain.experiments.trials import Trial
from perdure.domain.foundation.base import FrozenModel


class Labelled(FrozenModel):
    """One output: whether the loop accepted it, and whether it is right."""

    accepted: bool
    right: bool


class Agreement(FrozenModel):
    """Shares over all outputs with a label.

    `false_accepts` is the share of wrong outputs that were accepted, `false_rejects` of right ones
    that were not; None where there were none of the kind.
    """

    outputs: int
    agreement: float
    false_accepts: float | None
    false_rejects: float | None


def labelled(plan: Plan, trials: Sequence[Trial]) -> list[Labelled]:
    """The outputs for which both verdicts are known."""
    # Only labels say what is right; another judge's score is one more opinion.
    if plan.scoring.by != "labels":
        return []
    return [
        Labelled(accepted=one.met, right=one.held_out >= plan.scoring.passes)
        for trial in trials
        if trial.counts
        for one in trial.tries
        if one.held_out is not None and one.score is not None and not one.failed
    ]


def agreement(marks: Sequence[Labelled]) -> Agreement | None:
    """The shares; None without outputs."""
    if not marks:
        return None
    wrong = [one.accepted for one in marks if not one.right]
    right = [not one.accepted for one in marks if one.right]
    return Agreement(
        outputs=len(marks),
        agreement=round(sum(one.accepted == one.right for one in marks) / len(marks), 4),
        false_accepts=round(sum(wrong) / len(wrong), 4) if wrong else None,
        false_rejects=round(sum(right) / len(right), 4) if right else None,
    )
