"""Recall as a whole: one allowance for knowledge and skills, and one line for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remembering import START, avoid, candidates, corpora, episode, learning, skill, texts

from perdure.domain.foundation.tokens import estimate
from perdure.domain.memory.entries import Origin
from perdure.domain.memory.recall import RecallReport, RecallRequest, recalled, report_of
from perdure.domain.memory.store import Candidates

GOAL = "limit the rate"


def request(limit: int = 1_000, **changes: object) -> RecallRequest:
    plain = RecallRequest(run="r", goal=GOAL, token_limit=limit, now=START)
    return plain.model_copy(update=changes)


def report(asked: RecallRequest, *entries, skills=(), named=()) -> RecallReport:
    found = recalled(asked, candidates(*entries), Candidates(entries=tuple(skills)), named)
    return report_of(found, text=None, skills_text=None, seconds=0.1)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((), "0 similar tasks"),
        ((learning("l", "cake"),), "0 similar tasks"),
        (
            (episode("a", GOAL), episode("b", GOAL), avoid("c", "a fixed rate")),
            "2 similar tasks, 1 anti-pattern: “a fixed rate”",
        ),
        ((avoid("a", "rate x"), avoid("b", "rate y")), "2 anti-patterns"),
        (tuple(learning(f"l{n}", "rate") for n in range(12)), "10 learnings, 2 left out"),
    ],
    ids=["nothing", "nothing near", "as in the story", "two to avoid", "too many"],
)
def test_the_line(entries, expected: str) -> None:
    assert report(request(), *entries).summary == expected


def test_skills_are_reported_with_what_the_loop_decides_on() -> None:
    asked = request(skills=("Mail", "nobody", "theirs"), category="code")
    theirs = skill("theirs", origins=(Origin(run="x", outcome="failed"),))
    named = (skill("mail", deterministic=True, version=3), theirs)
    near = (skill("limits", categories=("code",)),)
    told = report(asked, skills=near, named=named)
    assert [(item.name, item.requested) for item in told.skills] == [
        ("mail", True),
        ("limits", False),
    ]
    assert (told.skills[0].deterministic, told.skills[0].version) == (True, 3)
    assert told.skills[1].score == 0.2
    assert told.used == ("skill-mail", "skill-limits")
    assert told.missing == ("nobody", "theirs")
    assert told.summary == "2 skills, no skill nobody, theirs"


def test_skills_find_room_beside_much_knowledge() -> None:
    many = [learning(f"l{n}", f"rate {n} " + "word " * 60) for n in range(10)]
    asked = request(400, skills=("s",))
    told = report(asked, *many, named=(skill("s", text="1. do it"),))
    assert [item.name for item in told.skills] == ["s"]
    assert told.learnings > 0


@given(corpora(), st.lists(texts(most=40), max_size=4), st.integers(0, 400))
def test_both_blocks_together_keep_the_limit(entries, bodies: list[str], limit: int) -> None:
    skills = [skill(f"s{n}", purpose="rate", text=body) for n, body in enumerate(bodies)]
    found = recalled(request(limit), candidates(*entries), Candidates(entries=tuple(skills)), ())
    together = estimate(found.knowledge.text).total + estimate(found.skills.text).total
    assert together <= limit
    assert len(set(found.used)) == len(found.used)
