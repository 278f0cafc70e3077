"""What follows from each decision of a manager, and what each phase of a budget refuses."""

import pytest

from perdure.domain.delegation.apply_decision import after_unreadable_reply, decide
from perdure.domain.delegation.next_step import (
    AskAgain,
    AskPerson,
    BudgetPhase,
    Check,
    DecisionRefused,
    End,
    Planned,
    Work,
    budget_phase,
)
from perdure.domain.delegation.progress import ManagerProgress
from perdure.domain.delegation.spec import DelegationSettings
from tests.domain.delegation.playing import (
    ASK,
    DONE,
    GIVE_UP,
    GUESS,
    SETTINGS,
    end_of,
    plan,
    step,
    work,
    worked,
)


def test_a_delegation_runs_and_is_remembered() -> None:
    course, directive = step(ManagerProgress(), work("a", "b"))
    assert directive == Work(work("a", "b").delegations)
    assert (course.iteration, course.rounds[-1].reason) == (1, "it is time")


@pytest.mark.parametrize(("cap", "run", "deferred"), [(6, 6, 2), (0, 8, 0), (8, 8, 0), (1, 1, 7)])
def test_more_than_the_cap_is_deferred_and_told(cap: int, run: int, deferred: int) -> None:
    settings = DelegationSettings(workers_per_iteration=cap)
    names = [f"w{number}" for number in range(8)]
    course, directive = step(ManagerProgress(), work(*names), settings=settings)
    assert isinstance(directive, Work)
    assert (len(directive.envelopes), len(directive.deferred)) == (run, deferred)
    assert bool(deferred) is any("Deferred" in note and "w7" in note for note in course.notes)


def test_poor_work_is_not_done_again_and_feeds_no_reading() -> None:
    course = worked(ManagerProgress(), work("a"), confidence=0.2)
    course, directive = step(course, work("a"))
    assert isinstance(directive, DecisionRefused) and "iteration 1" in directive.why
    assert course.progress.total == 1
    assert course.notes == (directive.why,)
    assert course.rounds[-1].note.startswith("refused: The same work")


def test_what_the_manager_was_told_is_told_once() -> None:
    course, _ = step(worked(ManagerProgress(), work("a"), confidence=0.2), work("a"))
    assert course.notes
    course, _ = step(course, work("b"))
    assert course.notes == ()


def test_plans_are_taken_refused_locked_and_stall() -> None:
    course, directive = step(ManagerProgress(), plan("a", "b"))
    assert directive == Planned()
    course, directive = step(course, plan("c"))
    assert directive == Planned()
    course, directive = step(course, plan("d"))
    assert isinstance(directive, DecisionRefused) and "ready: c" in directive.why
    course = worked(course, work("w", subtask="c"))
    course, directive = step(course, plan("e"))
    assert directive == Planned()


def test_a_plan_that_does_not_hold_together_changes_nothing() -> None:
    course, _ = step(ManagerProgress(), plan("a"))
    before = course.plan
    course, directive = step(course, plan("b", after="x"))
    assert isinstance(directive, DecisionRefused) and "b depends on x" in directive.why
    assert course.plan == before


def test_a_locked_plan_without_work_left_ends_the_run() -> None:
    course, _ = step(ManagerProgress(), plan("a"))
    course, _ = step(course, plan("b"))
    course = worked(course, work("w", subtask="b"), usable=False, confidence=None)
    _, directive = step(course, plan("c"))
    assert end_of(directive) == ("best_effort", "plan_loop_stall")


def test_a_manager_that_only_plans_is_ended() -> None:
    course, directive = ManagerProgress(), None
    for number in range(20):
        course, directive = step(course, plan(f"s{number}"))
        if isinstance(directive, End):
            break
    assert end_of(directive) == ("best_effort", "plan_loop_stall")
    assert course.iteration == 7


def test_completion_is_checked_a_person_is_asked() -> None:
    assert step(ManagerProgress(), DONE)[1] == Check(DONE)
    course, directive = step(ManagerProgress(), ASK)
    assert directive == AskPerson("Which year?", ("2024", "2025"))
    course = course.with_answer("Which year?", "2025")
    assert course.answers[0].answer == "2025"


@pytest.mark.parametrize(
    ("usable", "wanted"), [(True, ("best_effort", "gave_up")), (False, ("failed", "gave_up"))]
)
def test_giving_up_depends_on_what_there_is(usable: bool, wanted: tuple[str, str]) -> None:
    course = worked(ManagerProgress(), work("a"), usable=usable, confidence=0.5 if usable else None)
    _, directive = step(course, GIVE_UP)
    assert end_of(directive) == wanted
    assert isinstance(directive, End) and "no data" in directive.verdict.explanation


def test_five_unreadable_replies_in_a_row_end_the_run() -> None:
    course = ManagerProgress().with_next_iteration()
    for _ in range(4):
        course, directive = after_unreadable_reply(course, ("no JSON",))
        assert directive == AskAgain(("no JSON",))
    again, _ = decide(course, work("a"), settings=SETTINGS, phase="core_work")
    assert again.unreadable == 0
    _, directive = after_unreadable_reply(course, ("no JSON",))
    assert end_of(directive) == ("failed", "manager_unreadable")


@pytest.mark.parametrize(
    ("fraction", "phase"),
    [
        (1.0, "core_work"),
        (0.41, "core_work"),
        (0.40, "validation_and_repair"),
        (0.21, "validation_and_repair"),
        (0.20, "synthesis"),
        (0.06, "synthesis"),
        (0.05, "reserve"),
        (0.0, "reserve"),
    ],
)
def test_the_phases_of_a_budget(fraction: float, phase: BudgetPhase) -> None:
    assert budget_phase(fraction) == phase


@pytest.mark.parametrize(
    ("phase", "refused"),
    [
        ("core_work", set()),
        ("validation_and_repair", set()),
        ("synthesis", {"plan"}),
        ("reserve", {"plan", "delegate", "diagnose", "escalate"}),
    ],
)
def test_what_a_phase_takes_no_more(phase: BudgetPhase, refused: set[str]) -> None:
    every = (work("a"), plan("a"), GUESS, DONE, ASK, GIVE_UP)
    found = {
        item.decision
        for item in every
        if isinstance(step(ManagerProgress(), item, phase=phase)[1], DecisionRefused)
    }
    assert found == refused
