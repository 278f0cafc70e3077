"""Incremental evaluation: which dimensions of an output the judge has to score again.

Checks always run; this module decides only what the judge is asked. A dimension that is not asked
for keeps its score and its open findings, which only a new judgement can close.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, EvaluationMode, failing
from perdure.domain.outputs.diff import ChangeKind, Changes
from perdure.domain.refine.state import BestDraft

# `FULL_FROM` and `UNJUDGED_UP_TO` are shares of an output's lines that changed.
FULL_FROM = 0.6
UNJUDGED_UP_TO = 0.1
UNJUDGED_FROM_SCORE = 0.9
# Carried scores expire: once the changes since the last full evaluation add up to the length of the
# output, all of it is judged again.
FULL_FROM_DRIFT = 1.0

# What a dimension is called or described as, if a change of this kind concerns it. One that none of
# them fits, such as `accuracy`, is carried while it passes.
_WORDS: Mapping[ChangeKind, str] = {
    "code": r"code|correct|bug|logic|function|behav|perform|secur|errors?\b|robust|efficien|"
    r"complex|\bapi|implement|algorithm|race|thread",
    "comments": r"comment|docum|explain|explan|readab",
    "docs": r"\bdocs?\b|docum|docstring|readme|explain|explan|wording|word|grammar|spelling|"
    r"readab|clarity|clear|tone|style|language|phras",
    "tests": r"\btest|coverage|edge case|assert",
    "structure": r"structur|organi[sz]|layout|\border\b|heading|section|architect|modul|format|"
    r"outline|complete|signature|\bapi|interface|naming",
}


@dataclass(frozen=True, slots=True)
class Scope:
    """What to evaluate: the judge scores the dimensions in `asked`, the others keep their scores.

    With `excerpt` the judge is shown the changed passages, and the rest folded.
    """

    kind: EvaluationMode
    asked: tuple[str, ...] = ()
    excerpt: bool = False


def look_at(
    rubric: Rubric,
    *,
    previous: BestDraft | None,
    follows: bool,
    checks: Sequence[DimensionScore],
    changes: Changes | None,
    identical: bool,
    is_long: bool,
    confidence: float,
    threshold: float | None,
) -> Scope:
    """What a new output needs of an evaluation.

    Args:
        rubric: the rubric in force.
        previous: the newest scored output, None before there is one.
        follows: the iteration right before this one wrote it.
        checks: what the checks say of the new output.
        changes: the difference from `previous`, None when it is not known.
        identical: the output is the previous one again.
        is_long: the output is long enough for an excerpt.
        confidence: the score from which passing checks vouch for an output.
        threshold: the score that a judged dimension should have.
    """
    names = tuple(item.name for item in rubric.judged)
    before = previous.evaluation if previous else None
    if previous is None or before is None or previous.score is None:
        return Scope("full", names)
    if identical:
        return Scope("skipped_identical")
    if not names:
        return Scope("full")
    # Only the draft right before vouches for this one: after a draft without a score, nobody knows
    # what was lost in it.
    if follows and _vouched_for(checks, previous.score, confidence):
        return Scope("skipped_confident")
    # Looked at before small changes are let through: many of them add up to another output.
    drift = before.drift + (changes.fraction if changes else 1.0)
    if changes is None or changes.fraction > FULL_FROM or drift >= FULL_FROM_DRIFT:
        return Scope("full", names)
    if changes.fraction <= UNJUDGED_UP_TO and previous.score >= UNJUDGED_FROM_SCORE:
        return Scope("incremental")
    asked = affected(rubric, before, changes, threshold=threshold)
    # Of a long output the judge sees an excerpt, even if all is asked: that does not end the drift.
    whole = asked == names and not is_long
    return Scope("full" if whole else "incremental", asked, excerpt=is_long)


def affected(
    rubric: Rubric, before: Evaluation, changes: Changes, *, threshold: float | None
) -> tuple[str, ...]:
    """The judged dimensions that a change concerns, in the order of the rubric.

    Those with open findings or below their target, since the next draft was told to mend them;
    those whose evidence was touched; those that the kind of the change implies.
    """
    below = failing(rubric, before, threshold)
    found: list[str] = []
    for dimension in rubric.judged:
        known = before.get(dimension.name)
        told = known is None or bool(known.findings) or dimension.name in below
        said = f"{dimension.name} {dimension.description}".casefold()
        implied = any(re.search(_WORDS[kind], said) for kind in changes.kinds)
        if told or implied or dimension.name in changes.touched:
            found.append(dimension.name)
    return tuple(found)


def evidence_of(before: Evaluation | None) -> dict[str, tuple[str, ...]]:
    """Where findings were found so far, by dimension; those without a place are left out."""
    if before is None:
        return {}
    return {item.name: item.evidence for item in before.dimensions if item.evidence}


def with_mode_and_drift(
    evaluation: Evaluation | None, look: Scope, before: Evaluation | None, changes: Changes | None
) -> Evaluation | None:
    """The evaluation with its mode, and with what changed since all was judged."""
    if evaluation is None:
        return None
    if look.kind == "skipped_identical" or before is None:
        return evaluation
    mode = evaluation.mode if evaluation.mode == "failed" else look.kind
    fraction = changes.fraction if changes else 0.0
    # Rounded, because as floats ten changes of a tenth are less than one whole output.
    drift = 0.0 if look.kind == "full" else round(before.drift + fraction, 4)
    return evaluation.model_copy(update={"mode": mode, "drift": drift})


def _vouched_for(checks: Sequence[DimensionScore], score: float, confidence: float) -> bool:
    """Whether the last score was so high that passing checks vouch for the new output too."""
    # Without a single check nobody would have looked at the new output at all.
    return (
        bool(checks) and score >= confidence and all((item.capped or 0.0) >= 1.0 for item in checks)
    )
