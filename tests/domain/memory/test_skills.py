"""Skills: who is chosen for a task, and what the end of a run teaches."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remembering import RUN, START, learning, skill

from perdure.domain.memory.entries import Origin
from perdure.domain.memory.skills import SKILLS_AT_MOST, after_outcome, select_skills, skill_score
from perdure.domain.memory.tokenizer import question_terms

FAILED = Origin(run="r", outcome="failed")


@pytest.mark.parametrize(
    ("changes", "category", "expected"),
    [
        ({}, "code", 0.0),
        ({"categories": ("Code",)}, "code", 0.2),
        ({"categories": ("code",)}, None, 0.0),
        ({"categories": ("mail",), "purpose": "limits"}, "code", 0.0),
        ({"purpose": "limits of things"}, None, 0.2),
        ({"uses": 5, "effectiveness": 0.9}, None, 0.18),
        ({"uses": 10, "effectiveness": 0.9}, None, 0.36),
        ({"uses": 99, "effectiveness": 1.0, "categories": ("code",)}, "code", 0.6),
    ],
    ids=[
        "unknown",
        "category",
        "no category asked",
        "other category",
        "without category, a shared term",
        "half experienced",
        "experienced",
        "all",
    ],
)
def test_the_score(changes: dict[str, object], category: str | None, expected: float) -> None:
    asked = question_terms("set a limit", category)
    assert skill_score(skill("s", **changes), category=category, asked=asked) == expected


def test_those_that_were_asked_for_come_first_then_the_better_ones() -> None:
    good = [
        skill(f"n{number}", categories=("code",), uses=number, effectiveness=1.0)
        for number in range(6)
    ]
    wanted = [skill("B"), skill("a")]
    chosen = select_skills(
        [*good, *wanted, learning()], requested=("b", "A", "none"), category="code", now=START
    )
    assert [item.skill.name for item in chosen] == ["B", "a", "n5", "n4", "n3"]
    assert [item.requested for item in chosen] == [True, True, False, False, False]


def test_none_that_was_asked_for_is_dropped() -> None:
    wanted = [f"w{number}" for number in range(7)]
    known = [skill("n", categories=("code",)), *(skill(name) for name in wanted)]
    chosen = select_skills(known, requested=wanted, category="code", now=START)
    assert [item.skill.name for item in chosen] == wanted


@pytest.mark.parametrize(
    ("changes", "requested", "expected"),
    [
        ({"uses": 5, "effectiveness": 0.5}, (), []),
        ({"uses": 5, "effectiveness": 0.501}, (), ["s"]),
        ({"origins": (FAILED,), "categories": ("code",)}, (), []),
        ({"origins": (FAILED,)}, ("s",), []),
        ({"origins": (FAILED, RUN), "categories": ("code",)}, (), ["s"]),
        ({"confidence": 0.05, "categories": ("code",)}, (), []),
        ({"confidence": 0.05}, ("S",), ["s"]),
    ],
    ids=[
        "exactly 0.1",
        "above 0.1",
        "of a failed run",
        "of a failed run, asked for",
        "also of an accepted run",
        "faded",
        "faded, asked for",
    ],
)
def test_who_is_kept(changes, requested, expected: list[str]) -> None:
    chosen = select_skills([skill("s", **changes)], requested=requested, category="code", now=START)
    assert [item.skill.name for item in chosen] == expected


def test_effectiveness_is_a_share_that_its_first_value_opens() -> None:
    entry = skill("s", effectiveness=0.5)
    seen: list[float] = []
    for accepted in (True, True, False):
        entry = after_outcome(entry, accepted=accepted)
        seen.append(entry.effectiveness)
    assert seen == pytest.approx([0.75, 2.5 / 3, 2.5 / 4])
    assert (entry.successes, entry.judged) == (2, 3)


def test_other_entries_count_successes() -> None:
    assert after_outcome(learning(), accepted=True) == learning(successes=1)
    assert after_outcome(learning(), accepted=False) == learning()


@given(st.floats(0, 1), st.lists(st.booleans(), max_size=50))
def test_effectiveness_stays_a_share(first: float, ends: list[bool]) -> None:
    entry = skill("s", effectiveness=first)
    for accepted in ends:
        entry = after_outcome(entry, accepted=accepted)
    expected = (first + sum(ends)) / (1 + len(ends))
    assert entry.effectiveness == pytest.approx(expected, abs=1e-6)
    for accepted in ends:
        entry = after_outcome(entry, accepted=not accepted, before=accepted)
    turned = len(ends) - sum(ends)
    assert (entry.successes, entry.judged) == (turned, len(ends))
    assert entry.effectiveness == pytest.approx((first + turned) / (1 + len(ends)), abs=1e-6)


@given(
    st.lists(
        st.builds(
            skill,
            st.text("abcd", min_size=1, max_size=3),
            uses=st.integers(0, 20),
            effectiveness=st.floats(0, 1),
            categories=st.sampled_from([(), ("code",), ("mail",)]),
        ),
        max_size=12,
        unique_by=lambda item: item.name,
    )
)
def test_the_choice_is_bounded_and_does_not_depend_on_order(known) -> None:
    now = START + timedelta(days=1)
    chosen = select_skills(known, category="code", now=now)
    assert chosen == select_skills(reversed(known), category="code", now=now)
    assert len(chosen) <= SKILLS_AT_MOST
    assert all(item.score > 0.1 for item in chosen)
