"""How often hypotheses may be tested, and what their tests tell."""

import pytest

from perdure.domain.delegation.next_step import DecisionRefused, Test
from perdure.domain.delegation.progress import ManagerProgress, after_diagnosis, verdict_of
from perdure.domain.delegation.results import WorkerEnd, WorkerReport
from perdure.domain.delegation.spec import DelegationSettings
from tests.domain.delegation.playing import GUESS, SETTINGS, step, work, worked


def test_diagnoses_have_their_limits() -> None:
    course, directive = step(ManagerProgress(), GUESS)
    assert directive == Test(GUESS.hypotheses)
    course = after_diagnosis(course, [], settings=SETTINGS)
    course, directive = step(course, GUESS)
    assert isinstance(directive, Test)
    course = after_diagnosis(course, [], settings=SETTINGS)
    course, directive = step(course, GUESS)
    assert isinstance(directive, DecisionRefused) and "2 more times" in directive.why
    course = worked(course, work("a"))
    course, directive = step(course, GUESS)
    assert isinstance(directive, DecisionRefused) and "1 more time " in directive.why
    course = worked(course, work("b"))
    course, directive = step(course, GUESS)
    assert isinstance(directive, Test)


@pytest.mark.parametrize(("limit", "allowed"), [(1, 3), (12, 3), (15, 3), (16, 4), (100, 25)])
def test_a_run_has_so_many_diagnoses(limit: int, allowed: int) -> None:
    settings, course, made = DelegationSettings(max_iterations=limit), ManagerProgress(), 0
    for number in range(200):
        course, directive = step(course, GUESS, settings=settings)
        if isinstance(directive, Test):
            made += 1
            course = after_diagnosis(course, [], settings=settings)
        course = worked(course, work(f"a{number}"))
    assert made == allowed


@pytest.mark.parametrize(
    ("end", "stated", "wanted"),
    [
        ("done", 0.51, "confirmed"),
        ("done", 0.5, "not confirmed"),
        ("done", None, "undecided"),
        ("deferred", None, "not tested"),
        ("crashed", None, "not tested"),
    ],
)
def test_a_hypothesis_is_confirmed_above_a_half_by_who_tested_it(
    end: WorkerEnd, stated: float | None, wanted: str
) -> None:
    # Derived, as after tool calls that all went well.
    assert verdict_of(WorkerReport(worker="h1", end=end, stated=stated, confidence=0.7)) == wanted


def test_a_diagnosis_tells_what_was_confirmed_and_feeds_no_reading() -> None:
    course, _ = step(ManagerProgress(), GUESS)
    reports = [
        WorkerReport(worker="h1", confidence=0.9, stated=0.9, key_finding="it is empty"),
        WorkerReport(worker="h2", confidence=0.1, stated=0.1),
        WorkerReport(worker="h3", confidence=0.7, key_finding="it is not so"),
        WorkerReport(worker="h4", end="deferred"),
    ]
    course = after_diagnosis(course, reports, settings=SETTINGS)
    assert course.rounds[-1].note == (
        "confirmed: h1; not confirmed: h2; undecided: h3 (it is not so); not tested: h4"
    )
    assert course.rounds[-1].confidence is None
    assert course.progress.total == 0
