"""What an evaluation says: findings, scores by dimension, and the overall score.

A dimension without a score, or with a stale one, leaves the iteration unscored: a failed
evaluator is never a number.
"""

from collections.abc import Sequence
from typing import Literal

from perdure.domain.evaluation.rubric import Part, Rubric, ScoreSource
from perdure.domain.evaluation.trajectory import Score, rounded
from perdure.domain.foundation.base import FrozenModel

Severity = Literal["blocker", "important", "suggestion"]


_WORDS: dict[Severity, str] = {
    "blocker": "blocker blocking critical fatal severe showstopper p0",
    "important": "important major high serious significant error must p1",
    "suggestion": "suggestion suggested minor low medium moderate nit nitpick trivial cosmetic"
    " optional info note p2 p3 p4",
}


_SEVERITIES: dict[str, Severity] = {
    word: severity for severity, words in _WORDS.items() for word in words.split()
}


SEVERITY_WORDS = frozenset(_SEVERITIES)


GRAVE_WORDS = frozenset(word for word, severity in _SEVERITIES.items() if severity == "blocker")


def known_severity(word: str) -> Severity | None:
    """The severity that a word means; None for a word that nobody agreed on."""
    return _SEVERITIES.get(word.strip().strip("[]()*:.").casefold())


def severity_of(word: str) -> Severity:
    """The severity of a word that cannot be asked about: unknown ones are suggestions."""
    return known_severity(word) or "suggestion"


EvaluationMode = Literal[
    "full",
    "cached",
    "incremental",
    "skipped_identical",
    "skipped_confident",
    "skipped_read_only",
    "skipped_deterministic",
    "failed",
    "none",
]

BLOCKER_CAP = 0.3
IMPORTANT_CAP = 0.9


class Finding(FrozenModel):
    """One concrete defect: how bad, where, what is missing, how to fix it."""

    id: str
    severity: Severity
    dimension: str
    title: str
    detail: str = ""
    location: str = ""
    fix: str = ""
    part: Part | None = None


class DimensionScore(FrozenModel):
    """The score of one dimension, with the findings that are open in it.

    `score` is None when its evaluator failed; `gap` says what is missing below 1.0; `carried` was
    not looked at again, `stale` should have been and could not. `evidence` is where its findings
    were found, those included that are settled. `cached_from` is the run that paid for it, where
    the same question had been answered before. `counted` is what a test program counted, in words.
    """

    name: str
    score: Score | None
    source: ScoreSource
    gap: str = ""
    carried: bool = False
    stale: bool = False
    findings: tuple[Finding, ...] = ()
    evidence: tuple[str, ...] = ()
    cached_from: str = ""
    counted: str = ""

    @property
    def capped(self) -> float | None:
        """The score under the caps that open findings of an opinion set.

        A check has counted what it found: 99 of 100 tests are 0.99, and more than 91 of 100.
        """
        if self.score is None or self.source == "check":
            return self.score
        return min(self.score, severity_cap(self.findings))


class Evaluation(FrozenModel):
    """All dimensions of one output, in the order of the rubric.

    `drift` is how much changed since the judge last scored all of them, in whole outputs.
    """

    dimensions: tuple[DimensionScore, ...] = ()
    mode: EvaluationMode = "full"
    drift: float = 0.0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that is open, dimension by dimension."""
        return tuple(finding for item in self.dimensions for finding in item.findings)

    def get(self, name: str) -> DimensionScore | None:
        return next((item for item in self.dimensions if item.name == name), None)

    def scores(self) -> dict[str, float]:
        """Capped scores by dimension, without those that have none."""
        pairs = ((item.name, item.capped) for item in self.dimensions)
        return {name: score for name, score in pairs if score is not None}


def severity_cap(findings: Sequence[Finding]) -> float:
    """The highest score that a dimension with these open findings may have."""
    severities = {finding.severity for finding in findings}
    if "blocker" in severities:
        return BLOCKER_CAP
    return IMPORTANT_CAP if "important" in severities else 1.0


def overall_score(rubric: Rubric, evaluation: Evaluation) -> float | None:
    """The weighted mean over the rubric; None when a dimension is missing, failed or stale.

    Weights that sum to 0 give the plain mean.
    """
    weighted: list[tuple[float, float]] = []
    for dimension in rubric.dimensions:
        found = evaluation.get(dimension.name)
        # No mean of the rest: a score of fewer dimensions could not be compared with the others.
        if found is None or found.capped is None or found.stale:
            return None
        weighted.append((dimension.effective_weight, found.capped))
    return weighted_mean(weighted)


def weighted_mean(weighted: Sequence[tuple[float, float]]) -> float | None:
    """The mean of (weight, score) pairs, None for none; without any weight the plain mean."""
    if not weighted:
        return None
    heaviest = max(weight for weight, _ in weighted)
    if heaviest == 0:
        return rounded(sum(score for _, score in weighted) / len(weighted))
    # Scaled by the largest weight, so that huge ones do not overflow and tiny ones do not vanish.
    shares = [(weight / heaviest, score) for weight, score in weighted]
    total = sum(share for share, _ in shares)
    return min(1.0, rounded(sum(share * score for share, score in shares) / total))


def has_passed_deciding_checks(rubric: Rubric, evaluation: Evaluation) -> bool:
    """Whether there are deciding dimensions and all of them pass."""
    deciding = [dimension for dimension in rubric.dimensions if dimension.decides]
    # Of no dimensions all pass: a rubric in which none decides would accept its first draft.
    return bool(deciding) and all(
        dimension.passes(_current(evaluation, dimension.name)) for dimension in deciding
    )


def has_passed_all_items(rubric: Rubric, evaluation: Evaluation, threshold: float | None) -> bool:
    """Whether every dimension passes, each as an item of a checklist."""
    return all(
        dimension.passes(_current(evaluation, dimension.name), threshold)
        for dimension in rubric.dimensions
    )


def failing(rubric: Rubric, evaluation: Evaluation, threshold: float | None) -> tuple[str, ...]:
    """The names of the dimensions that do not pass, in the order of the rubric."""
    return tuple(
        dimension.name
        for dimension in rubric.dimensions
        if not dimension.passes(_current(evaluation, dimension.name), threshold)
    )


def stale_copy(score: DimensionScore) -> DimensionScore:
    """A score that is still shown after its evaluator failed; it counts as missing."""
    return score.model_copy(update={"carried": True, "stale": True})


def still_open(before: Sequence[Finding], looked_at: DimensionScore) -> tuple[Finding, ...]:
    """Earlier findings of a judged dimension that its new evaluation did not settle.

    A finding that came back under its id is the new one; a full score settles all.
    """
    if looked_at.score is not None and looked_at.score >= 1.0:
        return ()
    now = {finding.id for finding in looked_at.findings}
    return tuple(
        finding
        for finding in before
        if finding.dimension == looked_at.name and finding.id not in now
    )


def _current(evaluation: Evaluation, name: str) -> float | None:
    found = evaluation.get(name)
    return None if found is None or found.stale else found.capped
