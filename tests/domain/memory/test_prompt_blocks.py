"""What a model is told of memory: within its tokens, with its provenance, nothing else."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from remembering import RUN, START, avoid, candidates, corpora, episode, learning, skill, texts

from perdure.domain.foundation.tokens import estimate
from perdure.domain.memory.entries import Origin
from perdure.domain.memory.prompt_blocks import (
    SIMILAR_TASKS,
    block_of,
    provenance,
    recall_allowance,
)
from perdure.domain.memory.ranking import Ranked, rank
from perdure.domain.memory.skills import Chosen, tell_skills
from perdure.domain.memory.tokenizer import question_terms

FAILED = Origin(run="refine-f", outcome="regressed")
NOW = START + timedelta(weeks=1)


def ranked(*entries) -> list[Ranked]:
    return [Ranked(entry, 1.0, 1.0) for entry in entries]


def test_the_block() -> None:
    told = block_of(
        ranked(
            avoid("a", "Do not use a fixed window", confidence=0.7),
            learning("l", "Redis holds\nthe counters", last_used=START, origins=(RUN, FAILED)),
            episode("e", "Limit logins"),
            learning("p", "Ask Ann", origins=()),
        ),
        limit=1_000,
        now=NOW,
    )
    assert told.text == snapshot("""\
Notes from earlier runs; hints, not part of the task.
To avoid:
- Do not use a fixed window (confidence 0.70, from refine-a, accepted)
Similar tasks:
- “Limit logins” ended accepted with score 0.91. What worked: small steps (from refine-a, accepted)
Known:
- Redis holds the counters (confidence 0.48, from refine-a and 1 more, accepted)
- Ask Ann (confidence 0.50, written by a person)\
""")
    assert told.ids == ("a", "e", "l", "p")


def test_skills_in_full_and_as_lines() -> None:
    chosen = [
        Chosen(skill(f"s{number}", purpose="does it", text=f"1. Step {number}\n2. Done"), 0.5)
        for number in range(4)
    ]
    assert tell_skills(chosen, limit=1_000).text == snapshot("""\
Skill “s0”: does it (version 1, written by a person)
1. Step 0
2. Done

Skill “s1”: does it (version 1, written by a person)
1. Step 1
2. Done

Skill “s2”: does it (version 1, written by a person)
1. Step 2
2. Done

Skill “s3”: does it (version 1, written by a person)\
""")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (learning(origins=(FAILED,)), False),
        (learning(origins=(FAILED, RUN)), True),
        (avoid(origins=(FAILED,)), False),
        (learning(origins=()), True),
        (learning(confidence=0.05), False),
        (learning(confidence=0.3, last_used=START - timedelta(weeks=52)), False),
        (skill(), False),
    ],
    ids=["failed run", "both", "anti-pattern of a failed run", "person", "weak", "faded", "skill"],
)
def test_who_may_be_told(entry, expected: bool) -> None:
    told = block_of(ranked(entry), limit=1_000, now=NOW)
    assert bool(told.text) is bool(told.ids) is expected
    assert told.left_out == ()


def test_at_most_three_similar_tasks() -> None:
    told = block_of(ranked(*(episode(str(n), f"goal {n}") for n in range(5))), limit=9_000, now=NOW)
    assert told.ids == ("0", "1", "2")
    assert told.left_out == ("goal 3", "goal 4")
    assert told.text.endswith("Left out for want of space: 2.")


def test_what_does_not_fit_is_named_and_a_shorter_one_may_follow() -> None:
    told = block_of(
        ranked(learning("long", "word " * 70), learning("short", "word")), limit=50, now=NOW
    )
    assert told.ids == ("short",)
    assert told.left_out == (("word " * 12).strip()[:59] + "…",)


@pytest.mark.parametrize(
    ("limit", "expected"), [(200_000, 20_000), (None, 20_000), (9, 0), (0, 0), (-5, 0)]
)
def test_a_tenth_of_the_tokens(limit: int | None, expected: int) -> None:
    assert recall_allowance(limit) == expected


@given(corpora(), texts(), st.integers(0, 300))
def test_the_tokens_are_never_exceeded(entries, asked: str, limit: int) -> None:
    found = candidates(*entries)
    told = block_of(rank(question_terms(asked, None), found, now=NOW), limit=limit, now=NOW)
    assert estimate(told.text).total <= limit
    shown = [entry for entry in entries if entry.id in told.ids]
    assert len(shown) == len(told.ids)
    assert all(
        not entry.origins or any(origin.outcome == "accepted" for origin in entry.origins)
        for entry in shown
    )
    assert len(told.shown["similar_tasks"]) <= SIMILAR_TASKS


@given(st.lists(texts(most=60), max_size=5), st.integers(0, 200))
def test_skills_stay_within_their_tokens(bodies: list[str], limit: int) -> None:
    chosen = [Chosen(skill(f"s{n}", text=body), 0.5) for n, body in enumerate(bodies)]
    told = tell_skills(chosen, limit=limit)
    assert estimate(told.text).total <= limit
    assert len(told.shown) + len(told.left_out) == len(chosen)


def test_provenance() -> None:
    assert provenance(learning(origins=())) == "written by a person"
    assert provenance(learning(origins=(FAILED, RUN))) == "from refine-a and 1 more, accepted"
    assert provenance(learning(origins=(FAILED,))) == "from refine-f, regressed"
