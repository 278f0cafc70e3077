"""Merging: what says the same reinforces, and saying it again changes nothing."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remembering import START, avoid, candidates, episode, learning, learnings, skill, texts

from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.memory.deduplication import (
    ORIGINS_KEPT,
    merged,
    reinforced,
    same_lesson,
    telltale_terms,
)
from perdure.domain.memory.entries import OldText, Origin, Pattern, may_enter
from perdure.domain.memory.store import Corpus
from perdure.domain.memory.tokenizer import terms

SAID = "count requests per address and user, over a sliding window of sixty seconds"
OTHER = Origin(run="refine-b", outcome="accepted")
FAILED = Origin(run="refine-c", outcome="regressed")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (learning("a", SAID), learning("b", SAID.upper() + "!"), True),
        (learning("a", SAID), learning("b", SAID.replace("sixty", "fifty")), True),
        (learning("a", SAID), learning("b", f"{SAID} or three minutes at most"), False),
        (learning("a", SAID), avoid("b", SAID), False),
        (learning("a", SAID), learning("b", f"never {SAID}"), False),
        (learning("a", f"{SAID} 3"), learning("b", f"{SAID} 5"), False),
        (learning("a", "a b c d"), learning("b", "a b c d e"), False),
        (learning("a", "a b c d e"), learning("b", "a b c d e f"), True),
        (episode("a", SAID), episode("b", SAID), False),
    ],
    ids=[
        "same words",
        "one word other",
        "many more",
        "other sort",
        "negated",
        "other figure",
        "exactly 0.8",
        "above 0.8",
        "episodes",
    ],
)
def test_near_duplicates(one, other, expected: bool) -> None:
    assert same_lesson(one, other) is same_lesson(other, one) is expected


@given(texts(most=30), texts(most=30))
def test_near_duplicates_hold_a_telltale_term(one: str, other: str) -> None:
    known = candidates(learning("a", one), learning("b", "rate")).corpus
    telltale = telltale_terms(other, known)
    if same_lesson(learning("a", one), learning("b", other)) and "the" not in one:
        assert set(telltale) & set(terms(one))


def test_telltale_terms_are_few_and_rare() -> None:
    corpus = Corpus(entries=9, mean_terms=3, holders={"common": 9, "some": 4, "rare": 1})
    text = "common some rare and of the common words"
    assert telltale_terms(text, corpus) == ("rare",)
    assert telltale_terms("common", corpus) == ("common",)
    assert telltale_terms("new words", corpus) == ()


@pytest.mark.parametrize(
    ("known", "incoming", "expected"),
    [
        (0.5, 0.5, 0.625),
        (0.7, 0.5, 0.775),
        (0.5, 0.7, 0.775),
        (0.94, 0.5, 0.95),
        (0.98, 0.5, 0.98),
        (0.5, 1.0, 1.0),
    ],
    ids=["equal", "known higher", "new higher", "ceiling", "above the ceiling", "certain"],
)
def test_confidence_grows_by_a_quarter_of_the_gap(
    known: float, incoming: float, expected: float
) -> None:
    first = learning("a", SAID, confidence=known)
    second = learning("b", SAID, confidence=incoming, origins=(OTHER,))
    assert reinforced(first, second).confidence == pytest.approx(expected)


def test_a_run_reinforces_once() -> None:
    first = learning("a", SAID)
    again = learning("b", SAID, confidence=0.9)
    assert reinforced(first, again) == first
    later = reinforced(first, learning("b", SAID, origins=(OTHER, FAILED)))
    assert [origin.run for origin in later.origins] == ["refine-a", "refine-b", "refine-c"]
    assert reinforced(later, learning("c", SAID, origins=(FAILED,))) == later


def test_the_words_of_an_accepted_run_replace_those_of_another() -> None:
    first = learning("a", SAID, origins=(FAILED,))
    assert reinforced(first, learning("b", f"{SAID}!", origins=(OTHER,))).text == f"{SAID}!"
    both = reinforced(learning("a", SAID), learning("b", f"{SAID}!", origins=(OTHER,)))
    assert both.text == SAID


def test_what_is_learned_again_is_no_longer_idle_and_of_every_category() -> None:
    first = learning("a", SAID, category="code", uses=1, last_used=START)
    later = START + timedelta(weeks=9)
    new = learning("b", SAID, category="mail", created=later, origins=(OTHER,))
    both = reinforced(first, new)
    assert (both.last_used, both.category, both.created) == (later, None, START)
    assert reinforced(learning("a", SAID), new).last_used is None


def test_many_origins_keep_the_first_and_the_newest() -> None:
    known = learning("a", SAID)
    for number in range(50):
        origin = Origin(run=f"r{number}", outcome="accepted")
        known = reinforced(known, learning("b", SAID, origins=(origin,)))
    runs = [origin.run for origin in known.origins]
    assert (len(runs), runs[0], runs[-1]) == (ORIGINS_KEPT, "refine-a", "r49")


def test_a_confirmed_lesson_stays_confirmed_however_many_runs_repeat_it() -> None:
    known = reinforced(
        learning("a", SAID, origins=(FAILED,)), learning("b", SAID, origins=(OTHER,))
    )
    for number in range(50):
        origin = Origin(run=f"r{number}", outcome="best_effort")
        known = reinforced(known, learning("c", SAID, origins=(origin,)))
    assert may_enter(known)
    runs = [origin.run for origin in known.origins]
    assert (len(runs), runs[:2], runs[-1]) == (ORIGINS_KEPT, ["refine-c", "refine-b"], "r49")


@pytest.mark.long
@given(learnings(), learnings())
def test_merging_again_changes_nothing_and_never_weakens(one, other) -> None:
    both = reinforced(one, other)
    assert reinforced(both, other) == both
    assert one.confidence <= both.confidence <= 1
    assert reinforced(one, one) == one


def test_a_skill_of_the_same_text_stays_and_of_another_is_the_next_version() -> None:
    known = skill("s", text="one", uses=4, judged=3, effectiveness=0.8, version=2)
    assert merged(known, skill("s", text="one", created=START + timedelta(days=1))) == known
    new = merged(known, skill("S", id="other", text="two"))
    before = OldText(version=2, text="one", source=known.source)
    changed = {"name": "S", "text": "two", "version": 3, "earlier": (before,)}
    assert new == known.model_copy(update=changed)


def test_a_run_never_replaces_the_skill_of_a_person() -> None:
    with pytest.raises(NotAllowed, match="written by a person"):
        merged(skill("s"), skill("s", text="x", origins=(OTHER,)))
    assert merged(skill("s", origins=(OTHER,)), skill("s", text="x")).origins == ()


def test_what_is_written_again_keeps_its_counts() -> None:
    known = episode("e", "old", uses=3, successes=2)
    new = merged(known, episode("e", "new", created=START + timedelta(days=1)))
    assert new == known.model_copy(update={"goal": "new"})


def test_a_decision_about_a_pattern_stays() -> None:
    known = Pattern(
        kind="pattern", id="p", sort="hour", subject=("9",), seen=3, state="rejected", created=START
    )
    seen = known.model_copy(update={"seen": 9, "state": "proposed"})
    assert merged(known, seen) == known.model_copy(update={"seen": 9})


def test_one_id_is_one_kind() -> None:
    with pytest.raises(InvalidInput, match="holds a skill under the id skill-s, not a learning"):
        merged(skill("s"), learning("skill-s"))


@given(st.floats(0, 1), st.lists(st.floats(0, 1), max_size=30))
def test_confidence_never_leaves_its_range(first: float, others: list[float]) -> None:
    known = learning("a", SAID, confidence=first)
    for number, confidence in enumerate(others):
        origin = Origin(run=str(number), outcome="accepted")
        new = learning("b", SAID, confidence=confidence, origins=(origin,))
        known = reinforced(known, new)
    assert 0 <= known.confidence <= max([0.95, first, *others])
