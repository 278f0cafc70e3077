"""What a run's course keeps of its work, and when its progress ends it."""

import pytest

from perdure.domain.delegation.completion import Breaker
from perdure.domain.delegation.decisions import MakePlan, Subtask
from perdure.domain.delegation.next_step import DecisionRefused, Planned, Work
from perdure.domain.delegation.progress import (
    ManagerProgress,
    after_delegation,
    planned_end,
    progress_end,
)
from perdure.domain.delegation.repeated_work import repeat_refusal
from perdure.domain.delegation.results import WorkerEnd, WorkerReport
from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.evaluation.outcomes import RunEnd
from tests.domain.delegation.playing import REJECTION, SETTINGS, plan, step, work, worked


@pytest.mark.parametrize(
    ("usable", "critique", "status"),
    [(True, None, "done"), (True, 0.6, "done"), (True, 0.5, "pending"), (False, None, "failed")],
)
def test_a_subtask_follows_its_worker(usable: bool, critique: float | None, status: str) -> None:
    course, _ = step(ManagerProgress(), plan("s1", "s2"))
    course = worked(course, work("a", subtask="s1"), usable=usable, critique=critique)
    assert [node.status for node in course.plan.nodes] == [status, "pending"]


@pytest.mark.parametrize(
    ("stated", "critique", "status", "cut_short"),
    [
        pytest.param(0.02, None, "failed", False, id="its own word"),
        pytest.param(0.3, None, "done", False, id="at the limit"),
        pytest.param(None, None, "done", False, id="nothing said"),
        pytest.param(0.02, 0.8, "done", False, id="the reviewer knows better"),
        pytest.param(0.95, 0.1, "failed", False, id="also downwards"),
        pytest.param(0.95, 0.5, "pending", False, id="the review asks for more"),
        pytest.param(None, None, "failed", True, id="cut short, and nobody said a word"),
        pytest.param(None, 0.8, "done", True, id="cut short, and the reviewer is content"),
        pytest.param(None, 0.5, "pending", True, id="cut short, and the review asks for more"),
    ],
)
def test_work_that_nobody_can_build_on_leaves_its_subtask_failed(
    stated: float | None, critique: float | None, status: str, cut_short: bool
) -> None:
    course, _ = step(ManagerProgress(), plan("s1", "s2"))
    order = work("a", subtask="s1")
    course, _ = step(course, order)
    report = WorkerReport(
        worker="a",
        subtask="s1",
        confidence=stated or 0.1,
        stated=stated,
        critique=critique,
        usable=True,
        cut_short=cut_short,
    )
    course, _ = after_delegation(
        course, order.delegations, [report], output=None, similarity=None, settings=SETTINGS
    )
    assert [node.status for node in course.plan.nodes] == [status, "pending"]


@pytest.mark.parametrize(
    ("confidence", "stated", "critique", "cut_short", "status"),
    [
        (0.1, None, None, False, "failed"),
        (0.29, None, None, False, "failed"),
        (0.3, None, None, False, "done"),
        (0.65, None, None, False, "done"),
        (0.1, None, 0.9, False, "done"),
        (0.65, None, None, True, "failed"),
    ],
    ids=["nothing", "below", "at the limit", "tools worked", "reviewed", "cut short"],
)
def test_doubtful_work_is_judged_by_what_was_derived(
    confidence: float, stated: float | None, critique: float | None, cut_short: bool, status: str
) -> None:
    course, _ = step(ManagerProgress(), plan("s1"))
    order = work("a", subtask="s1")
    course, _ = step(course, order)
    report = WorkerReport(
        worker="a", subtask="s1", confidence=confidence, stated=stated, doubtful=True,
        critique=critique, usable=True, cut_short=cut_short,
    )  # fmt: skip
    course, _ = after_delegation(
        course, order.delegations, [report], output="o", similarity=None, settings=SETTINGS
    )
    assert [node.status for node in course.plan.nodes] == [status]
    assert status == "done" or cut_short or "gave no confidence" in course.plan.nodes[0].note


@pytest.mark.parametrize(("critique", "again"), [(0.9, True), (0.2, False), (None, False)])
def test_whether_work_was_poor_says_its_reviewer_first(critique: float | None, again: bool) -> None:
    order = work("a")
    course, _ = step(ManagerProgress(), order)
    report = WorkerReport(worker="a", confidence=0.2, critique=critique, usable=True)
    course, _ = after_delegation(
        course, order.delegations, [report], output=None, similarity=None, settings=SETTINGS
    )
    assert (repeat_refusal(course.past, order.delegations) is None) is again


@pytest.mark.parametrize(
    ("ends", "again"),
    [
        (["deferred", "deferred"], True),
        (["deferred", "crashed"], False),
        (["crashed", "crashed"], False),
    ],
)
def test_work_that_has_not_begun_may_be_delegated_again(ends: list[WorkerEnd], again: bool) -> None:
    order = work("a", "b")
    course, _ = step(ManagerProgress(), order)
    reports = [WorkerReport(worker=name, end=end) for name, end in zip("ab", ends, strict=True)]
    course, _ = after_delegation(
        course, order.delegations, reports, output=None, similarity=None, settings=SETTINGS
    )
    assert (repeat_refusal(course.past, order.delegations) is None) is again


@pytest.mark.parametrize(
    ("ends", "status", "readings"),
    [
        (["deferred", "deferred"], "pending", 0),
        (["deferred", "done"], "pending", 1),
        (["deferred", "crashed"], "pending", 1),
        (["crashed", "crashed"], "failed", 1),
    ],
)
def test_work_that_has_not_begun_fails_nothing_and_is_no_reading(
    ends: list[WorkerEnd], status: str, readings: int
) -> None:
    course, _ = step(ManagerProgress(), plan("s1"))
    order = work("a", "b", subtask="s1")
    course, _ = step(course, order)
    reports = [
        WorkerReport(worker=name, subtask="s1", end=end, usable=end == "done")
        for name, end in zip("ab", ends, strict=True)
    ]
    course, verdict = after_delegation(
        course, order.delegations, reports, output=None, similarity=None, settings=SETTINGS
    )
    assert [node.status for node in course.plan.nodes] == [status]
    assert course.progress.total == readings
    assert verdict.signal == "ok"
    older, _ = after_delegation(
        course, order.delegations, reports, output=None, similarity=None, settings=SETTINGS,
        deferred_counts=True,
    )  # fmt: skip
    assert older.progress.total == readings + 1


def test_a_subtask_that_is_done_stays_so_when_more_work_on_it_has_not_begun() -> None:
    course, _ = step(ManagerProgress(), plan("s1"))
    course = worked(course, work("a", subtask="s1"))
    order = work("b", subtask="s1")
    course, _ = step(course, order)
    reports = [WorkerReport(worker="b", subtask="s1", end="deferred")]
    course, _ = after_delegation(
        course, order.delegations, reports, output=None, similarity=None, settings=SETTINGS
    )
    assert [node.status for node in course.plan.nodes] == ["done"]


@pytest.mark.parametrize(
    ("named", "counts", "note"),
    [
        ("S1", "s1", None),
        ("s1", "s1", None),
        (None, None, None),
        ("s9", "s9", "there is no subtask s9; there are s1, s2."),
    ],
)
def test_work_goes_to_the_subtask_that_its_id_means(
    named: str | None, counts: str | None, note: str | None
) -> None:
    course, _ = step(ManagerProgress(), plan("s1", "s2"))
    course, directive = step(course, work("a", subtask=named))
    assert isinstance(directive, Work)
    assert directive.envelopes[0].subtask == counts
    assert len(course.notes) == bool(note)
    assert all(note in told for told in course.notes if note)


def test_without_a_plan_nothing_is_said_of_an_id() -> None:
    course, directive = step(ManagerProgress(), work("a", subtask="s1"))
    assert isinstance(directive, Work) and course.notes == ()


def measured(acceptance: str) -> MakePlan:
    subtask = Subtask(id="s1", title="Count.", acceptance=acceptance)
    return MakePlan(decision="plan", subtasks=(subtask,))


@pytest.mark.parametrize(
    ("first", "then", "refused"),
    [("exact", "exact", True), ("exact", "within 5", False), ("", "exact", False)],
    ids=["measured as before", "measured by something else", "measured now"],
)
def test_work_that_is_measured_by_something_else_is_other_work(
    first: str, then: str, refused: bool
) -> None:
    order = work("a", subtask="s1")
    course = worked(step(ManagerProgress(), measured(first))[0], order, confidence=0.2)
    course, directive = step(course, measured(then))
    assert directive == Planned()
    _, directive = step(course, order)
    assert isinstance(directive, DecisionRefused if refused else Work)


@pytest.mark.parametrize(
    ("usable", "trips"),
    [
        ([True], False),
        ([True, True], False),
        ([False, True], False),
        ([True, False], False),
        ([], True),
        ([False], True),
        ([False, False], True),
    ],
    ids=[
        "useful work", "twice", "at the second try", "and then nothing",
        "no work", "nothing came back", "twice nothing",
    ],
)  # fmt: skip
def test_useful_work_between_two_refused_completions_resets_the_breaker(
    usable: list[bool], trips: bool
) -> None:
    course = ManagerProgress(breaker=Breaker().after(REJECTION, cap=2)[0])
    for number, one in enumerate(usable):
        course = worked(course, work(f"a{number}"), usable=one)
    assert course.breaker.after(REJECTION, cap=2)[1] is trips


def test_a_stuck_run_is_told_then_switched_then_ended() -> None:
    settings = DelegationSettings(strategies=("reframe",))
    course, seen, end = ManagerProgress(), [], None
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
    assert isinstance(end, RunEnd) and (end.outcome, end.reason) == ("best_effort", "stalled")


def test_a_converged_run_ends_after_any_decision() -> None:
    course = ManagerProgress()
    for number, confidence in enumerate((0.9, 0.8, 0.7, 0.65, 0.65)):
        course = worked(course, work(f"a{number}"), confidence=confidence)
    assert course.iteration == 5
    course, _ = step(course, plan("s1"))
    end = progress_end(course, SETTINGS)
    assert end is not None and (end.outcome, end.reason) == ("best_effort", "converged")
    waiting = course.model_copy(update={"iteration": 3})
    assert progress_end(waiting, SETTINGS) is None


def test_the_permitted_iterations_end_a_run() -> None:
    settings = DelegationSettings(max_iterations=2)
    assert planned_end(ManagerProgress(iteration=1), settings) is None
    end = planned_end(ManagerProgress(iteration=2), settings)
    assert end is not None and end.reason == "max_iterations"


def test_only_the_newest_rounds_keep_their_workers() -> None:
    course = ManagerProgress()
    for number in range(6):
        course = worked(course, work(f"a{number}"))
    assert [len(item.workers) for item in course.rounds] == [0, 0, 0, 1, 1, 1]
