"""Which trial a number is, what a trial's task holds, and what its runs are called."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.experiments.plan import (
    Arm,
    Entry,
    Plan,
    Position,
    Tries,
    trial_run_id,
    trial_task,
)

ARMS = (
    Arm(name="loop", task={}),
    Arm(name="single", task={}),
    Arm(name="best", task={}, tries=Tries(spend="same_tokens", of="loop")),
)


@given(repeats=st.integers(1, 5), number=st.integers(0, 10_000))
def test_every_number_is_one_trial(repeats: int, number: int) -> None:
    plan = Plan(name="x", arms=ARMS, repeats=repeats)
    entry, repeat, arm = plan.position(number)
    names = [one.name for one in plan.arms]
    assert (entry * repeats + repeat) * len(names) + names.index(arm) == number
    assert 0 <= repeat < repeats


@given(repeats=st.integers(1, 5), number=st.integers(0, 10_000))
def test_an_arm_that_spends_like_another_waits_for_that_of_its_own_input(
    repeats: int, number: int
) -> None:
    plan = Plan(name="x", arms=ARMS, repeats=repeats)
    entry, repeat, arm = plan.position(number)
    beside = plan.beside(number)
    if arm == "best":
        assert beside is not None
        assert plan.position(beside) == Position(entry, repeat, "loop")
    else:
        assert beside is None


def test_adding_inputs_keeps_the_numbers_of_those_that_are_there() -> None:
    plan = Plan(name="x", arms=ARMS, repeats=2)
    assert [plan.position(number).entry for number in range(0, 18, 6)] == [0, 1, 2]


def test_ids_of_runs_are_unique() -> None:
    made = {
        trial_run_id("e", Position(entry, repeat, arm.name), attempt)
        for entry in range(12)
        for repeat in range(3)
        for arm in ARMS
        for attempt in range(12)
    }
    assert len(made) == 12 * 3 * 3 * 12


def test_an_input_fills_the_task_of_an_arm() -> None:
    arm = Arm(
        name="a",
        task={"goal": "g", "context": {"kept": "k"}, "metadata": {"label": "own", "tenant": "t"}},
    )
    entry = Entry(name="1", context={"product": "bottle"}, fields={"refine": {"patience": 2}})
    task = trial_task(arm, entry, label="exp")
    assert task["goal"] == "g"
    assert task["context"] == {"kept": "k", "product": "bottle"}
    assert task["refine"] == {"patience": 2}
    assert task["metadata"] == {"label": "exp", "tenant": "t"}
    assert arm.task["context"] == {"kept": "k"}


def test_an_input_may_bring_the_goal() -> None:
    task = trial_task(Arm(name="a", task={"goal": "g"}), Entry(name="1", goal="other"), label="e")
    assert task["goal"] == "other"
