"""Which workers become sub-managers, by word of the manager or by the score of their work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.delegation.decisions import Envelope, Priority, Subtask
from perdure.domain.delegation.plan import TaskPlan, replanned
from perdure.domain.delegation.worker_specs import complexity, promotions, scores

PLAN = replanned(
    TaskPlan(), (Subtask(id="a", title="t"), Subtask(id="b", title="t", depends_on=("a",)))
)
# Work on b waits for a, so it has no point for being free of dependencies.
AFTER = "b"


def work(
    text: str,
    *,
    subtask: str | None = AFTER,
    sub_manager: bool | None = None,
    priority: Priority = "normal",
) -> Envelope:
    return Envelope(
        worker="w", instructions=text, subtask=subtask, sub_manager=sub_manager, priority=priority
    )


def words(count: int) -> str:
    return " ".join(["word"] * count)


@pytest.mark.parametrize(
    ("envelope", "score"),
    [
        (work("short"), 0),
        (work("short", subtask=None), 1),
        (work("short", subtask="a"), 1),
        (work(words(39)), 0),
        (work(words(40)), 1),
        (work(words(79)), 1),
        (work(words(80)), 2),
        (work("Compare both."), 1),
        (work("Compare and evaluate both."), 1),
        (work("Compare, evaluate and design."), 2),
        (work("Compare, compare and compare."), 1),
        (work("Do:\n- one"), 0),
        (work("Do:\n- one\n- two"), 1),
        (work("Do:\n1. one\n2) two\n* three"), 2),
        (work(words(25), priority="high"), 1),
        (work(words(24), priority="high"), 0),
        (work(words(200), priority="low"), 2),
        (work(f"Download it. {words(90)}", subtask=None), 0),
        (work("Set up the folder and compare, evaluate, design."), 0),
        (work("Fetch and analyze it."), 1),
        (work("Install it, then iterate, research and synthesize."), 2),
        (work("short", sub_manager=True), 10),
        (work(words(200), sub_manager=False), 0),
        (work("Fetch it.", sub_manager=True), 10),
    ],
    ids=lambda value: value.instructions[:30] if isinstance(value, Envelope) else None,
)
def test_the_score_of_one_envelope(envelope: Envelope, score: int) -> None:
    assert complexity(envelope, PLAN) == score


COMPLEX = work(words(80))  # 2 by itself


@pytest.mark.parametrize(
    ("envelopes", "wanted"),
    [
        ([COMPLEX, COMPLEX], (2, 2)),
        ([COMPLEX, COMPLEX, COMPLEX], (4, 4, 4)),
        ([COMPLEX, COMPLEX, COMPLEX, work("short")], (4, 4, 4, 0)),
        ([COMPLEX, COMPLEX, work("x", sub_manager=True)], (2, 2, 10)),
    ],
    ids=["two", "three", "a simple one beside them", "an explicit one does not count"],
)
def test_three_complex_ones_lift_each_other(
    envelopes: list[Envelope], wanted: tuple[int, ...]
) -> None:
    assert scores(envelopes, PLAN) == wanted


@pytest.mark.parametrize(
    ("envelopes", "allowed", "wanted", "notes"),
    [
        ([COMPLEX], 3, set(), 0),
        ([work("x", sub_manager=True)], 1, {0}, 0),
        ([work("Fetch it.", sub_manager=True)], 3, {0}, 0),
        ([work("x", sub_manager=True)] * 2, 3, {0, 1}, 0),
        ([work("x", sub_manager=True)] * 4, 9, {0, 1, 2}, 1),
        ([work("x", sub_manager=True)] * 5, 9, {0, 1, 2}, 2),
        ([COMPLEX] * 3 + [work("x", sub_manager=True)], 2, {0, 3}, 0),
        ([work(words(200), sub_manager=False)] * 3, 3, set(), 0),
        ([COMPLEX] * 3, 3, {0, 1}, 0),
        ([COMPLEX] * 4, 9, {0, 1, 2}, 0),
        ([COMPLEX] * 3, 1, {0}, 0),
        ([COMPLEX] * 3, 0, set(), 0),
        ([work("x"), work("y", sub_manager=True)], 3, {1}, 0),
        ([work("x", sub_manager=True)] * 3, 3, {0, 1}, 1),
        ([COMPLEX, COMPLEX, COMPLEX, work("x", sub_manager=True)], 1, {3}, 0),
        ([work("x", sub_manager=True)], 0, set(), 1),
        ([work("x", sub_manager=True)], -2, set(), 1),
    ],
)
def test_promotions(envelopes: list[Envelope], allowed: int, wanted: set[int], notes: int) -> None:
    found = promotions(envelopes, PLAN, allowed=allowed)
    assert found.places == wanted
    assert len(found.notes) == notes


ANY_WORK = st.builds(
    work,
    st.sampled_from(["short", words(40), words(80), "Compare, evaluate and design.", "Fetch it."]),
    subtask=st.sampled_from([None, "a", "b"]),
    sub_manager=st.sampled_from([None, True, False]),
)


@given(st.lists(ANY_WORK, min_size=1, max_size=9), st.integers(0, 9))
def test_half_and_one_more_at_most_and_the_best_first(
    envelopes: list[Envelope], allowed: int
) -> None:
    rated = scores(envelopes, PLAN)
    found = promotions(envelopes, PLAN, allowed=allowed)
    complex_ones = sum(score >= 3 for score in rated)
    assert len(found.places) == min(complex_ones, allowed, len(envelopes) // 2 + 1)
    kept = [rated[place] for place in found.places]
    left = [score for place, score in enumerate(rated) if place not in found.places]
    assert min(kept, default=10) >= max((score for score in left if score >= 3), default=0)
    told = sum(bool(one.sub_manager) for one in envelopes) - sum(
        bool(envelopes[place].sub_manager) for place in found.places
    )
    assert len(found.notes) == told
