"""Puts an evaluation together from checks, a verdict, and what was known before."""

from collections.abc import Callable, Collection, Sequence
from typing import get_args

from pydantic import JsonValue

from perdure.domain.evaluation.rubric import Rubric, ScoreSource
from perdure.domain.evaluation.scores import (
    DimensionScore,
    Evaluation,
    Finding,
    Severity,
    overall_score,
    stale_copy,
    still_open,
)
from perdure.domain.foundation.plain_text import clipped
from perdure.domain.outputs.parts import part_label
from perdure.domain.turns.records import DimensionRecord

# An evaluation travels in the state, in records and in prompts, so all that models and people write
# into it is bounded.
TITLE_CHARACTERS = 300
DETAIL_CHARACTERS = 400
FINDINGS_KEPT = 60
EVIDENCE_CHARACTERS = 120
EVIDENCE_KEPT = 12


def combined(
    rubric: Rubric,
    *,
    checks: Sequence[DimensionScore],
    judged: Sequence[DimensionScore] | None,
    before: Evaluation | None,
    resolved: Sequence[str] = (),
    asked: Collection[str] | None = None,
    worst_first: Callable[[], bool] = lambda: True,
) -> Evaluation:
    """The evaluation of an output, in the order of the rubric.

    Args:
        rubric: the rubric in force.
        checks: the dimensions that code scored.
        judged: the dimensions that the judge scored; None when it gave no verdict: those it was
            asked for are carried forward and stale, so the iteration stays unscored.
        before: the evaluation of the newest scored output.
        resolved: the findings that the judge called settled; no others are closed.
        asked: what the judge was asked for; the other judged dimensions are carried forward with
            everything that is open in them. None: all of them.
        worst_first: whether of too many findings the worst are kept, asked only then; else the
            oldest are.
    """
    fresh = {item.name: item for item in (*checks, *(judged or ()))}
    dimensions: list[DimensionScore] = []
    for dimension in rubric.dimensions:
        item = fresh.get(dimension.name)
        known = before.get(dimension.name) if before else None
        unasked = asked is not None and dimension.name not in asked
        # People are asked last; until then their earlier scores stand.
        skipped = dimension.is_human or (dimension.is_judged and unasked)
        if item is None and skipped and known is not None:
            dimensions.append(known.model_copy(update={"carried": True}))
        elif item is None:
            dimensions.append(_missing(dimension.name, dimension.source, known))
        elif dimension.is_judged:
            dimensions.append(_judged(item, known, resolved, worst_first))
        else:
            dimensions.append(item)
    return Evaluation(
        dimensions=tuple(_clipped(item) for item in dimensions),
        # `noted` puts the mode of the look in its place, except for one that failed.
        mode="failed" if judged is None and rubric.judged else "full",
    )


def dimension_records(evaluation: Evaluation | None) -> dict[str, DimensionRecord]:
    """Scores as a record shows them; a dimension without a score is left out."""
    if evaluation is None:
        return {}
    return {
        item.name: DimensionRecord(
            score=item.capped,
            source=item.source,
            carried=item.carried,
            stale=item.stale,
            gap=item.gap,
            cached_from="" if item.carried else item.cached_from,
            counted=item.counted,
        )
        for item in evaluation.dimensions
        if item.capped is not None
    }


def findings_of(evaluation: Evaluation | None) -> tuple[dict[str, JsonValue], ...]:
    """Open findings as plain data."""
    found: Sequence[Finding] = evaluation.findings if evaluation else ()
    return tuple(finding.model_dump(mode="json", exclude_none=True) for finding in found)


def with_human_scores(
    rubric: Rubric, evaluation: Evaluation, given: Sequence[DimensionScore]
) -> Evaluation:
    """An evaluation with the scores that a person gave."""
    rest = [item for item in evaluation.dimensions if item.source != "human"]
    by_name = {item.name: item for item in (*rest, *given)}
    dimensions = [by_name[item.name] for item in rubric.dimensions if item.name in by_name]
    clipped = tuple(_clipped(item) for item in dimensions)
    return evaluation.model_copy(update={"dimensions": clipped})


def why_not_scored(evaluation: Evaluation, rubric: Rubric) -> str | None:
    """Which dimensions could not be scored and why, or None; people, who score last, aside."""
    asked = {item.name for item in rubric.human}
    missing = [
        item
        for item in evaluation.dimensions
        if (item.score is None or item.stale) and item.name not in asked
    ]
    return "; ".join(f"{item.name}: {item.gap}" for item in missing)[:500] or None


def part_states(rubric: Rubric, evaluation: Evaluation | None) -> tuple[tuple[str, bool, str], ...]:
    """Name, whether it passes, and what is missing: by part, or by dimension without parts."""
    if evaluation is None:
        return ()
    if not rubric.parts:
        return tuple(
            (item.name, (item.capped or 0.0) >= 1.0, item.gap) for item in evaluation.dimensions
        )
    rows: list[tuple[str, bool, str]] = []
    for part in rubric.parts:
        items = [evaluation.get(dimension.name) for dimension in rubric.of_part(part)]
        gaps = [item.gap for item in items if item is not None and (item.capped or 0.0) < 1.0]
        rows.append((part_label(part), not gaps and None not in items, "; ".join(gaps)))
    return tuple(rows)


def score_of(rubric: Rubric, evaluation: Evaluation | None) -> float | None:
    """The overall score, None when unscored."""
    return None if evaluation is None else overall_score(rubric, evaluation)


def _judged(
    item: DimensionScore,
    known: DimensionScore | None,
    resolved: Sequence[str],
    worst_first: Callable[[], bool],
) -> DimensionScore:
    """A judged dimension with what is still open of before, and where defects were found."""
    earlier = still_open(known.findings, item) if known else ()
    kept = [one for one in earlier if one.id not in resolved]
    new = [one for one in item.findings if one.id not in {k.id for k in kept}]
    places = [one.location[:EVIDENCE_CHARACTERS] for one in (*kept, *new) if one.location]
    # The places of settled findings stay: a change there is looked at again.
    evidence = dict.fromkeys((*(known.evidence if known else ()), *places))
    found = [*kept, *new]
    # A blocker that is cut off would take its cap along.
    if len(found) > FINDINGS_KEPT and worst_first():
        found.sort(key=lambda one: get_args(Severity).index(one.severity))
    return item.model_copy(
        update={
            "findings": tuple(found[:FINDINGS_KEPT]),
            "evidence": tuple(evidence)[-EVIDENCE_KEPT:],
        }
    )


def _missing(name: str, source: ScoreSource, known: DimensionScore | None) -> DimensionScore:
    if known is not None:
        return stale_copy(known)
    whose = {"judge": "the judge gave no usable verdict", "human": "no person has scored it"}
    return DimensionScore(
        name=name, score=None, source=source, gap=whose.get(source, "it was not checked")
    )


def _clipped(item: DimensionScore) -> DimensionScore:
    findings = tuple(
        finding.model_copy(
            update={
                "title": clipped(finding.title, TITLE_CHARACTERS),
                "detail": finding.detail[:DETAIL_CHARACTERS],
                "fix": finding.fix[:DETAIL_CHARACTERS],
            }
        )
        for finding in item.findings
    )
    return item.model_copy(update={"findings": findings, "gap": item.gap[:DETAIL_CHARACTERS]})
