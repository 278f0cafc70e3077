"""What becomes of the final deliverable by its score."""

from typing import Literal

from perdure.domain.delegation.settings import QualityThresholds
from perdure.domain.progress import rounded

Quality = Literal["accept", "accept_with_warning", "repair", "fail"]


def quality(score: float | None, thresholds: QualityThresholds) -> Quality:
    """The policy by score; what nobody scored is accepted, as all gates let it pass."""
    if score is None:
        return "accept"
    value = rounded(score)
    if value >= thresholds.accept:
        return "accept"
    if value >= thresholds.warn:
        return "accept_with_warning"
    return "repair" if value >= thresholds.repair else "fail"


def final_score(rubric: float | None, critique: float | None) -> float | None:
    """The score of the rubric if the task has one, else the reviewers' mean."""
    return critique if rubric is None else rubric
