"""A task plan holds together or is refused whole; what can be worked on follows from statuses."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.delegation.decisions import Subtask
from perdure.domain.delegation.plan import Node, TaskPlan, plan_problems, plan_view, replanned


def task(id: str, *after: str, title: str = "work", acceptance: str = "") -> Subtask:
    return Subtask(id=id, title=title, depends_on=after, acceptance=acceptance)


CHAIN = (task("a"), task("b", "a"), task("c", "b"), task("d"))


def ids(nodes: Sequence[Node]) -> list[str]:
    return [node.id for node in nodes]


@pytest.mark.parametrize(
    ("subtasks", "said"),
    [
        ((task("a"), task("b", "a")), []),
        ((task("a"), task("a")), ["The id a stands for 2 subtasks."]),
        ((task("a", "x"),), ["a depends on x, which is no subtask; there are a."]),
        ((task("a", "a"),), ["The subtasks wait for each other: a → a."]),
        ((task("a", "b"), task("b", "a")), ["wait for each other"]),
        ((task("a", "c"), task("b", "a"), task("c", "b"), task("d")), ["wait for each other"]),
        (tuple(task(f"s{n}") for n in range(11)), ["At most 10 subtasks; there are 11."]),
        (
            (task("a", "x"), task("a", "y")),
            ["The id a stands for 2", "a depends on x", "a depends on y"],
        ),
    ],
    ids=["fine", "twice", "unknown", "itself", "two", "three", "eleven", "several at once"],
)
def test_every_reason_against_a_plan_is_named(
    subtasks: tuple[Subtask, ...], said: list[str]
) -> None:
    problems = plan_problems(subtasks)
    assert len(problems) == len(said)
    for problem, words in zip(problems, said, strict=True):
        assert words in problem


def test_subtasks_become_actionable_when_dependencies_are_done() -> None:
    plan = replanned(TaskPlan(), CHAIN)
    assert ids(plan.actionable) == ["a", "d"]
    plan = plan.marked("a", "done", "found it")
    assert ids(plan.actionable) == ["b", "d"]
    assert ids(plan.pending) == ["b", "c", "d"]


def test_what_waits_behind_a_failed_subtask_is_blocked_with_its_name() -> None:
    plan = replanned(TaskPlan(), CHAIN).marked("a", "failed", "no access")
    assert plan.blocked == {"b": "a", "c": "a"}
    assert ids(plan.workable) == ["d"]
    assert plan_view(plan) == (
        "a [failed: no access] work",
        "b [blocked: a failed] work",
        "c [blocked: a failed] work",
        "d [ready] work",
    )
    healed = plan.marked("a", "done")
    assert healed.blocked == {}
    assert ids(healed.actionable) == ["b", "d"]


def test_the_view_tells_status_reason_and_measure() -> None:
    subtasks = (task("a", acceptance="two sources"), task("b", "a"))
    plan = replanned(TaskPlan(), subtasks)
    assert plan_view(plan) == ("a [ready] work (done when: two sources)", "b [waits for a] work")
    assert plan_view(plan.marked("a", "done", "three sources"))[0].startswith(
        "a [done: three sources]"
    )


def test_a_second_plan_without_progress_locks_the_plan() -> None:
    first = replanned(TaskPlan(), CHAIN)
    assert not first.locked
    second = replanned(first, (task("a"),))
    assert second.locked
    assert not second.progressed().locked


def test_progress_in_between_makes_a_new_plan_a_first_one() -> None:
    plan = replanned(replanned(TaskPlan(), CHAIN).progressed(), (task("a"), task("e")))
    assert not plan.locked
    assert replanned(plan, (task("a"),)).locked


def test_a_new_plan_keeps_what_is_done_and_retries_what_failed() -> None:
    plan = replanned(TaskPlan(), CHAIN).marked("a", "done", "n").marked("d", "failed", "m")
    new = replanned(plan, (task("a"), task("d"), task("e", "a")))
    assert [(node.id, node.status, node.note) for node in new.nodes] == [
        ("a", "done", "n"),
        ("d", "pending", ""),
        ("e", "pending", ""),
    ]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Subtask, ...]:
    size = draw(st.integers(min_value=1, max_value=10))
    names = [f"s{number}" for number in range(size)]
    picks = st.lists(st.sampled_from(names), max_size=3, unique=True)
    return tuple(task(name, *draw(picks)) for name in names)


@given(graphs(), st.data())
def test_an_accepted_plan_can_always_be_worked_off(
    subtasks: tuple[Subtask, ...], data: st.DataObject
) -> None:
    if plan_problems(subtasks):
        return
    plan = replanned(TaskPlan(), subtasks)
    while plan.actionable:
        node = data.draw(st.sampled_from(plan.actionable))
        done = {other.id for other in plan.nodes if other.status == "done"}
        assert done >= set(node.depends_on)
        plan = plan.marked(node.id, "failed" if data.draw(st.integers(0, 3)) == 0 else "done")
    left = {node.id for node in plan.pending}
    assert left == set(plan.blocked)
    assert plan.workable == ()
