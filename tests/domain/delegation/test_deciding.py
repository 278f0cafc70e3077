"""What follows from each decision, refusal and event; and that any script of them ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.delegation.completion import REPAIR_WORKER, Rejection
from perdure.domain.delegation.course import (
    Course,
    after_delegation,
    after_diagnosis,
    planned_end,
    progress_end,
)
from perdure.domain.delegation.deciding import after_gates, after_rejection, decide, unreadable
from perdure.domain.delegation.decisions import (
    Complete,
    Delegate,
    Diagnose,
    Envelope,
    Escalate,
    Fail,
    Hypothesis,
    MakePlan,
    ManagerDecision,
    Subtask,
)
from perdure.domain.delegation.diagnosis import confirmed
from perdure.domain.delegation.directives import (
    AskAgain,
    AskPerson,
    Check,
    Directive,
    End,
    Planned,
    Refused,
    Repair,
    Test,
    Work,
)
from perdure.domain.delegation.phases import BudgetPhase, budget_phase
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.settings import DelegationSettings
from perdure.domain.delegation.stall import Verdict
from perdure.domain.outcomes import REASONS, Ended

SETTINGS = DelegationSettings()


def work(*names: str, subtask: str | None = None, instructions: str = "") -> Delegate:
    return Delegate(
        decision="delegate",
        reason="it is time",
        delegations=tuple(
            Envelope(worker=name, subtask=subtask, instructions=instructions or f"do {name}")
            for name in names
        ),
    )


def plan(*ids: str, after: str | None = None) -> MakePlan:
    depends = (after,) if after else ()
    return MakePlan(
        decision="plan",
        subtasks=tuple(Subtask(id=id, title=id, depends_on=depends) for id in ids),
    )


GUESS = Diagnose(
    decision="diagnose", hypotheses=(Hypothesis(id="h1", statement="empty", test="look"),)
)
DONE = Complete(decision="complete", final_result="r")
ASK = Escalate(decision="escalate", question="Which year?", choices=("2024", "2025"))
GIVE_UP = Fail(decision="fail", why="no data")


def step(
    course: Course,
    decision: ManagerDecision,
    *,
    settings: DelegationSettings = SETTINGS,
    phase: BudgetPhase = "core_work",
) -> tuple[Course, Directive]:
    return decide(course.begun(), decision, settings=settings, phase=phase)


def came_back(
    course: Course,
    decision: Delegate,
    *,
    confidence: float | None = 0.7,
    usable: bool = True,
    critique: float | None = None,
    similarity: float | None = 0.2,
) -> tuple[Course, Verdict]:
    reports = [
        WorkerReport(
            worker=item.worker,
            subtask=item.subtask,
            end="done" if usable else "crashed",
            confidence=confidence,
            key_finding=f"{item.worker} {course.iteration}" if usable else "",
            error="" if usable else "boom",
            usable=usable,
            critique=critique,
        )
        for item in decision.delegations
    ]
    return after_delegation(
        course,
        decision.delegations,
        reports,
        output="o" if usable else None,
        similarity=similarity,
        settings=SETTINGS,
    )


def worked(
    course: Course,
    decision: Delegate,
    *,
    confidence: float | None = 0.7,
    usable: bool = True,
    critique: float | None = None,
) -> Course:
    course, _ = step(course, decision)
    return came_back(course, decision, confidence=confidence, usable=usable, critique=critique)[0]


def end_of(directive: object) -> tuple[str, str]:
    assert isinstance(directive, End), directive
    return directive.verdict.outcome, directive.verdict.reason


def test_a_delegation_runs_and_is_remembered() -> None:
    course, directive = step(Course(), work("a", "b"))
    assert directive == Work(work("a", "b").delegations)
    assert (course.iteration, course.rounds[-1].reason) == (1, "it is time")


@pytest.mark.parametrize(("cap", "run", "deferred"), [(6, 6, 2), (0, 8, 0), (8, 8, 0), (1, 1, 7)])
def test_more_than_the_cap_is_deferred_and_told(cap: int, run: int, deferred: int) -> None:
    settings = DelegationSettings(workers_per_iteration=cap)
    names = [f"w{number}" for number in range(8)]
    course, directive = step(Course(), work(*names), settings=settings)
    assert isinstance(directive, Work)
    assert (len(directive.envelopes), len(directive.deferred)) == (run, deferred)
    assert bool(deferred) is any("Deferred" in note and "w7" in note for note in course.notes)


def test_poor_work_is_not_done_again_and_feeds_no_reading() -> None:
    course = worked(Course(), work("a"), confidence=0.2)
    course, directive = step(course, work("a"))
    assert isinstance(directive, Refused) and "iteration 1" in directive.why
    assert course.progress.total == 1
    assert course.notes == (directive.why,)
    assert course.rounds[-1].note.startswith("refused: The same work")


def test_what_the_manager_was_told_is_told_once() -> None:
    course, _ = step(worked(Course(), work("a"), confidence=0.2), work("a"))
    assert course.notes
    course, _ = step(course, work("b"))
    assert course.notes == ()


def test_plans_are_taken_refused_locked_and_stall() -> None:
    course, directive = step(Course(), plan("a", "b"))
    assert directive == Planned()
    course, directive = step(course, plan("c"))
    assert directive == Planned()
    course, directive = step(course, plan("d"))
    assert isinstance(directive, Refused) and "ready: c" in directive.why
    course = worked(course, work("w", subtask="c"))
    course, directive = step(course, plan("e"))
    assert directive == Planned()


def test_a_plan_that_does_not_hold_together_changes_nothing() -> None:
    course, _ = step(Course(), plan("a"))
    before = course.plan
    course, directive = step(course, plan("b", after="x"))
    assert isinstance(directive, Refused) and "b depends on x" in directive.why
    assert course.plan == before


def test_a_locked_plan_without_work_left_ends_the_run() -> None:
    course, _ = step(Course(), plan("a"))
    course, _ = step(course, plan("b"))
    course = worked(course, work("w", subtask="b"), usable=False, confidence=None)
    _, directive = step(course, plan("c"))
    assert end_of(directive) == ("best_effort", "plan_loop_stall")


def test_a_manager_that_only_plans_is_ended() -> None:
    course, directive = Course(), None
    for number in range(20):
        course, directive = step(course, plan(f"s{number}"))
        if isinstance(directive, End):
            break
    assert end_of(directive) == ("best_effort", "plan_loop_stall")
    assert course.iteration == 7


def test_diagnoses_have_their_limits() -> None:
    course, directive = step(Course(), GUESS)
    assert directive == Test(GUESS.hypotheses)
    course = after_diagnosis(course, [], settings=SETTINGS)
    course, directive = step(course, GUESS)
    assert isinstance(directive, Test)
    course = after_diagnosis(course, [], settings=SETTINGS)
    course, directive = step(course, GUESS)
    assert isinstance(directive, Refused) and "2 more times" in directive.why
    course = worked(course, work("a"))
    course, directive = step(course, GUESS)
    assert isinstance(directive, Refused) and "1 more time " in directive.why
    course = worked(course, work("b"))
    course, directive = step(course, GUESS)
    assert isinstance(directive, Test)


@pytest.mark.parametrize(("limit", "allowed"), [(1, 3), (12, 3), (15, 3), (16, 4), (100, 25)])
def test_a_run_has_so_many_diagnoses(limit: int, allowed: int) -> None:
    settings, course, made = DelegationSettings(max_iterations=limit), Course(), 0
    for number in range(200):
        course, directive = step(course, GUESS, settings=settings)
        if isinstance(directive, Test):
            made += 1
            course = after_diagnosis(course, [], settings=settings)
        course = worked(course, work(f"a{number}"))
    assert made == allowed


@pytest.mark.parametrize(("score", "wanted"), [(0.51, True), (0.5, False), (None, False)])
def test_a_hypothesis_is_confirmed_above_a_half(score: float | None, wanted: bool) -> None:
    assert confirmed(score) is wanted


def test_a_diagnosis_tells_what_was_confirmed_and_feeds_no_reading() -> None:
    course, _ = step(Course(), GUESS)
    reports = [
        WorkerReport(worker="h1", confidence=0.9, key_finding="it is empty"),
        WorkerReport(worker="h2", confidence=0.1),
    ]
    course = after_diagnosis(course, reports, settings=SETTINGS)
    assert course.rounds[-1].note == "confirmed: h1; not confirmed: h2"
    assert course.rounds[-1].confidence is None
    assert course.progress.total == 0


def test_completion_is_checked_a_person_is_asked() -> None:
    assert step(Course(), DONE)[1] == Check(DONE)
    course, directive = step(Course(), ASK)
    assert directive == AskPerson("Which year?", ("2024", "2025"))
    course = course.answered("Which year?", "2025")
    assert course.answers[0].answer == "2025"


@pytest.mark.parametrize(
    ("usable", "wanted"),
    [(True, ("best_effort", "gave_up")), (False, ("failed", "gave_up"))],
)
def test_giving_up_depends_on_what_there_is(usable: bool, wanted: tuple[str, str]) -> None:
    course = worked(Course(), work("a"), usable=usable, confidence=0.5 if usable else None)
    _, directive = step(course, GIVE_UP)
    assert end_of(directive) == wanted
    assert isinstance(directive, End) and "no data" in directive.verdict.explanation


def test_five_unreadable_replies_in_a_row_end_the_run() -> None:
    course = Course().begun()
    for _ in range(4):
        course, directive = unreadable(course, ("no JSON",))
        assert directive == AskAgain(("no JSON",))
    again, _ = decide(course, work("a"), settings=SETTINGS, phase="core_work")
    assert again.unreadable == 0
    _, directive = unreadable(course, ("no JSON",))
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
        item.decision for item in every if isinstance(step(Course(), item, phase=phase)[1], Refused)
    }
    assert found == refused


REJECTION = Rejection(gate="deliverables", named=("a.md is missing",))
UNNAMED = Rejection(gate="success_criteria", named=("two sources",))


def reject(course: Course, times: int, rejection: Rejection, *wrong: str) -> tuple[Course, object]:
    directive: object = None
    for _ in range(times):
        course, _ = step(course, DONE)
        course, directive = after_rejection(
            course, rejection, wrong=wrong, settings=SETTINGS, phase="core_work"
        )
    return course, directive


def test_a_rejection_goes_back_with_what_is_missing() -> None:
    course, directive = reject(Course(), 1, REJECTION, "a.md is missing")
    assert isinstance(directive, Refused) and "a.md is missing" in course.notes[0]


def test_the_breaker_makes_one_repair_then_ends_the_run() -> None:
    course, directive = reject(Course(), 2, REJECTION, "a.md is missing")
    assert isinstance(directive, Repair)
    assert directive.envelope.worker == REPAIR_WORKER
    assert "a.md is missing" in directive.envelope.instructions
    course, directive = reject(course, 2, REJECTION, "a.md is missing")
    assert end_of(directive) == ("best_effort", "completion_rejected")


def test_with_nothing_to_name_there_is_no_repair() -> None:
    _, directive = reject(Course(), 2, UNNAMED)
    assert end_of(directive) == ("best_effort", "completion_rejected")


def test_the_reserve_pays_for_no_repair() -> None:
    course, _ = reject(Course(), 1, REJECTION, "a.md is missing")
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
    _, directive = after_gates(Course(), score, settings=SETTINGS)
    assert end_of(directive) == wanted
    assert isinstance(directive, End) and said in directive.verdict.explanation


def test_a_middling_score_goes_back_and_cannot_go_back_for_ever() -> None:
    course, directive = after_gates(step(Course(), DONE)[0], 0.5, settings=SETTINGS)
    assert isinstance(directive, Refused) and "the score is 0.50, wanted 0.6" in directive.why
    _, directive = after_gates(course, 0.5, settings=SETTINGS)
    assert end_of(directive) == ("best_effort", "completion_rejected")


@pytest.mark.parametrize(
    ("usable", "critique", "status"),
    [(True, None, "done"), (True, 0.6, "done"), (True, 0.5, "pending"), (False, None, "failed")],
)
def test_a_subtask_follows_its_worker(usable: bool, critique: float | None, status: str) -> None:
    course, _ = step(Course(), plan("s1", "s2"))
    course = worked(course, work("a", subtask="s1"), usable=usable, critique=critique)
    assert [node.status for node in course.plan.nodes] == [status, "pending"]


def test_a_stuck_run_is_told_then_switched_then_ended() -> None:
    settings = DelegationSettings(strategies=("reframe",))
    course, seen, end = Course(), [], None
    for number in range(12):
        decision = work("a", instructions=f"try {number}")
        course, _ = step(course, decision)
        course, verdict = after_delegation(
            course,
            decision.delegations,
            [WorkerReport(worker="a", confidence=0.3, usable=True, key_finding=f"{number}")],
            output="o",
            similarity=0.99,
            settings=settings,
        )
        seen.append(verdict.signal)
        end = progress_end(course, settings, verdict)
        if end:
            break
    assert seen == ["ok", "ok", "switch_strategy", "ok", "ok", "stop"]
    assert isinstance(end, Ended) and (end.outcome, end.reason) == ("best_effort", "stalled")


def test_a_converged_run_ends_after_any_decision() -> None:
    course = Course()
    for number, confidence in enumerate((0.2, 0.4, 0.6, 0.6, 0.6)):
        course = worked(course, work(f"a{number}"), confidence=confidence)
    assert course.iteration == 5
    course, _ = step(course, plan("s1"))
    end = progress_end(course, SETTINGS)
    assert end is not None and (end.outcome, end.reason) == ("best_effort", "converged")
    waiting = course.model_copy(update={"iteration": 3})
    assert progress_end(waiting, SETTINGS) is None


def test_the_permitted_iterations_end_a_run() -> None:
    settings = DelegationSettings(max_iterations=2)
    assert planned_end(Course(iteration=1), settings) is None
    end = planned_end(Course(iteration=2), settings)
    assert end is not None and end.reason == "max_iterations"


def test_only_the_newest_rounds_keep_their_workers() -> None:
    course = Course()
    for number in range(6):
        course = worked(course, work(f"a{number}"))
    assert [len(item.workers) for item in course.rounds] == [0, 0, 0, 1, 1, 1]


@dataclass(frozen=True)
class Event:
    """What the world does in one iteration; no decision is an unreadable reply."""

    decision: ManagerDecision | None
    confidence: float | None
    similarity: float | None
    rejection: Rejection | None
    score: float | None


DECISIONS: st.SearchStrategy[ManagerDecision] = st.one_of(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8).map(lambda n: work(*n)),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=5).map(lambda n: plan(*n)),
    st.sampled_from([GUESS, DONE, ASK, GIVE_UP]),
)
EVENTS = st.builds(
    Event,
    decision=st.one_of(DECISIONS, DECISIONS, DECISIONS, st.none()),
    confidence=st.sampled_from([None, 0.0, 0.3, 0.31, 0.5, 0.9]),
    similarity=st.sampled_from([None, 0.1, 0.99]),
    rejection=st.sampled_from([REJECTION, UNNAMED, None]),
    score=st.sampled_from([None, 0.2, 0.5, 0.9]),
)


def drive(script: Sequence[Event], settings: DelegationSettings) -> tuple[Course, Ended]:
    """A loop without a workflow: the script says what manager, workers and gates do."""
    course, events = Course(), cycle(script)
    while (end := planned_end(course, settings)) is None:
        phase = budget_phase(1 - course.iteration / (settings.max_iterations + 1))
        course, end = iterate(course.begun(), events, settings, phase)
        if end is not None:
            break
    return course, end


def iterate(
    course: Course, events: Iterator[Event], settings: DelegationSettings, phase: BudgetPhase
) -> tuple[Course, Ended | None]:
    event = next(events)
    while event.decision is None:
        course, asked = unreadable(course, ("?",))
        if isinstance(asked, End):
            return course, asked.verdict
        event = next(events)
    course, directive = decide(course, event.decision, settings=settings, phase=phase)
    verdict: Verdict | None = None
    match directive:
        case End():
            return course, directive.verdict
        case Work():
            course, verdict = carried_out(course, directive.envelopes, event, settings)
        case Test():
            course = after_diagnosis(course, [], settings=settings)
        case Check():
            course, end = checked(course, event, settings, phase)
            if end is not None:
                return course, end
        case _:
            pass
    return course, progress_end(course, settings, verdict)


def carried_out(
    course: Course, envelopes: Sequence[Envelope], event: Event, settings: DelegationSettings
) -> tuple[Course, Verdict]:
    reports = [
        WorkerReport(
            worker=item.worker,
            subtask=item.worker,
            confidence=event.confidence,
            usable=event.confidence is not None,
        )
        for item in envelopes
    ]
    return after_delegation(
        course,
        envelopes,
        reports,
        output="o",
        similarity=event.similarity,
        settings=settings,
    )


def checked(
    course: Course, event: Event, settings: DelegationSettings, phase: BudgetPhase
) -> tuple[Course, Ended | None]:
    if event.rejection is None:
        course, after = after_gates(course, event.score, settings=settings, phase=phase)
    else:
        wrong = event.rejection.named
        course, after = after_rejection(
            course, event.rejection, wrong=wrong, settings=settings, phase=phase
        )
    return course, after.verdict if isinstance(after, End) else None


@hypothesis.settings(deadline=None, max_examples=60)
@given(st.lists(EVENTS, min_size=1, max_size=12), st.integers(min_value=1, max_value=40))
def test_any_script_of_decisions_ends_with_a_known_reason(script: list[Event], limit: int) -> None:
    course, end = drive(script, DelegationSettings(max_iterations=limit))
    assert end.reason in REASONS[end.outcome]
    assert course.iteration <= limit
    assert len(course.model_dump_json()) < 64 * 1024
    assert Course.model_validate_json(course.model_dump_json()) == course


@given(st.data())
def test_a_manager_that_cannot_be_read_is_asked_five_times(data: st.DataObject) -> None:
    settings = DelegationSettings(max_iterations=data.draw(st.integers(1, 9)))
    silent = Event(None, None, None, None, None)
    course, end = drive([silent], settings)
    assert (end.reason, course.unreadable) == ("manager_unreadable", 5)
