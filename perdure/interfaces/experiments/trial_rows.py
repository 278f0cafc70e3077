"""The trials of an experiment as rows, for tables, data frames and programs."""

from collections.abc import Sequence
from decimal import Decimal

from perdure.domain.experiments.plan import Plan
from perdure.domain.experiments.trials import Trial
from perdure.domain.foundation.base import FrozenModel
from perdure.interfaces.experiments.report import passed, score_of, unscored


class TrialRow(FrozenModel):
    """One trial; unknown is None.

    `input` is the input's id, or its number from 1. `score` is the one that the report counts:
    the held-out one where there is one, and 0 for a run that failed. `why` is what the held-out
    score was given for, or why there is none. `counted` says whether the report counts the trial.
    """

    input: str
    repeat: int
    arm: str
    score: float | None
    own_score: float | None
    held_out: float | None
    passed: bool | None
    outcome: str
    tokens: int
    cost_usd: Decimal | None
    seconds: float
    model_calls: int
    tries: int
    run: str
    counted: bool
    reason: str
    why: str


def trial_rows(plan: Plan, trials: Sequence[Trial], entries: Sequence[str]) -> list[TrialRow]:
    """The rows in the order of the trials; one without a run has none.

    Args:
        plan: what was to be run.
        trials: what came of it.
        entries: the names of the inputs, in their order.
    """
    rows: list[TrialRow] = []
    for trial in sorted(trials, key=lambda each: each.number):
        chosen = trial.chosen
        if chosen is None:
            continue
        bare = unscored(plan, trial)
        named = trial.entry < len(entries)
        rows.append(
            TrialRow(
                input=entries[trial.entry] if named else str(trial.entry + 1),
                repeat=trial.repeat + 1,
                arm=trial.arm,
                # An output that nobody could score is not one with a score of 0.
                score=None if bare else round(score_of(plan, trial), 4),
                own_score=chosen.score,
                held_out=chosen.held_out,
                passed=None if bare else passed(plan, trial),
                outcome=chosen.outcome,
                tokens=trial.tokens,
                cost_usd=trial.cost_usd,
                seconds=round(trial.seconds, 3),
                model_calls=trial.model_calls,
                tries=len(trial.tries),
                run=chosen.run,
                counted=trial.counts and not bare,
                reason=chosen.reason,
                why=chosen.why,
            )
        )
    return rows
