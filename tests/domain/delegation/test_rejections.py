"""What follows when the gates of a claimed completion reject it."""

import pytest

from perdure.domain.delegation.apply_decision import after_checks, after_rejection
from perdure.domain.delegation.completion import REPAIR_WORKER, Rejection
from perdure.domain.delegation.next_step import DecisionRefused, End, Repair
from perdure.domain.delegation.progress import ManagerProgress
from tests.domain.delegation.playing import DONE, REJECTION, SETTINGS, UNNAMED, end_of, step


def reject(
    course: ManagerProgress, times: int, rejection: Rejection, *wrong: str
) -> tuple[ManagerProgress, object]:
    directive: object = None
    for _ in range(times):
        course, _ = step(course, DONE)
        course, directive = after_rejection(
            course, rejection, wrong=wrong, settings=SETTINGS, phase="core_work"
        )
    return course, directive


def test_a_rejection_goes_back_with_what_is_missing() -> None:
    course, directive = reject(ManagerProgress(), 1, REJECTION, "a.md is missing")
    assert isinstance(directive, DecisionRefused) and "a.md is missing" in course.notes[0]


def test_the_breaker_makes_one_repair_then_ends_the_run() -> None:
    course, directive = reject(ManagerProgress(), 2, REJECTION, "a.md is missing")
    assert isinstance(directive, Repair)
    assert directive.envelope.worker == REPAIR_WORKER
    assert "a.md is missing" in directive.envelope.instructions
    course, directive = reject(course, 2, REJECTION, "a.md is missing")
    assert end_of(directive) == ("best_effort", "completion_rejected")


def test_with_nothing_to_name_there_is_no_repair() -> None:
    _, directive = reject(ManagerProgress(), 2, UNNAMED)
    assert end_of(directive) == ("best_effort", "completion_rejected")


def test_the_reserve_pays_for_no_repair() -> None:
    course, _ = reject(ManagerProgress(), 1, REJECTION, "a.md is missing")
    _, directive = after_rejection(
        course, REJECTION, wrong=("a.md is missing",), settings=SETTINGS, phase="reserve"
    )
    assert end_of(directive) == ("best_effort", "completion_rejected")


@pytest.mark.parametrize(
    ("score", "wanted", "said"),
    [
        (None, ("accepted", "completed"), "The work was completed."),
        (0.9, ("accepted", "completed"), "score 0.90"),
        (0.7, ("accepted", "completed"), "with a warning: score 0.70, wanted 0.8"),
        (0.3, ("failed", "quality_failed"), "score 0.30, wanted 0.4"),
    ],
)
def test_the_final_deliverable_is_judged_by_its_score(
    score: float | None, wanted: tuple[str, str], said: str
) -> None:
    _, directive = after_checks(ManagerProgress(), score, settings=SETTINGS)
    assert end_of(directive) == wanted
    assert isinstance(directive, End) and said in directive.verdict.explanation


def test_a_middling_score_goes_back_and_cannot_go_back_for_ever() -> None:
    course, directive = after_checks(step(ManagerProgress(), DONE)[0], 0.5, settings=SETTINGS)
    assert (
        isinstance(directive, DecisionRefused) and "the score is 0.50, wanted 0.6" in directive.why
    )
    _, directive = after_checks(course, 0.5, settings=SETTINGS)
    assert end_of(directive) == ("best_effort", "completion_rejected")
