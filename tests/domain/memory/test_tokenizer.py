"""Terms: the same text gives the same terms, whoever asks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remembering import START, episode, learning, skill

from perdure.domain.memory.entries import Event, Pattern
from perdure.domain.memory.tokenizer import (
    TERM_CHARACTERS,
    TERMS_ASKED,
    overlap,
    question_terms,
    searchable,
    terms,
    words,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("The login of the API", ["login", "api"]),
        ("rate-limit, RATE_LIMITS!", ["rate", "limit", "rate", "limit"]),
        ("classes pass this status", ["classe", "pass", "status"]),
        ("don't, don\u2019t", ["dont", "dont"]),
        ("Ünïcödé ＦＵＬＬ straße", ["unicode", "full", "strasse"]),
        ("日本語 text", ["日", "本", "語", "text"]),
        ("v2.1 in 2026", ["v2", "1", "2026"]),
        ("a" * 99, ["a" * TERM_CHARACTERS]),
        ("!?…\x00\u200b", []),
    ],
    ids=[
        "empty",
        "stop words",
        "marks",
        "plurals",
        "apostrophes",
        "folding",
        "cjk",
        "figures",
        "long",
        "no words",
    ],
)
def test_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_negations_are_words_that_count() -> None:
    assert "not" in terms("do not retry")
    assert "never" in terms("never retry")


@given(st.text())
def test_a_term_is_one_word_for_every_index(text: str) -> None:
    for term in words(text):
        assert term
        assert not any(c.isspace() or (c.isascii() and not c.isalnum()) for c in term)
        assert len(term) <= TERM_CHARACTERS


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (learning("x", "a fact", category="code"), "a fact\ncode"),
        (episode("x", "the goal"), "the goal\nsmall steps\n"),
        (skill("Digest", purpose="p", categories=("c",), text="body"), "Digest\np\nc\nbody\n"),
        (
            Pattern(kind="pattern", id="p", sort="pair", subject=("a", "b"), created=START),
            "\na\nb\n",
        ),
        (Event(kind="event", id="v", text="never", created=START), ""),
    ],
    ids=["learning", "episode", "skill", "pattern", "event"],
)
def test_what_an_entry_is_found_by(entry, expected: str) -> None:
    assert searchable(entry) == expected


def test_a_question_names_each_term_once_and_the_category_first() -> None:
    assert question_terms("Limit the limits of mail", "Code review") == (
        "code",
        "review",
        "limit",
        "mail",
    )
    assert len(question_terms(" ".join(f"w{n}" for n in range(1_000)), None)) == TERMS_ASKED


@given(st.text(), st.text())
def test_overlap_is_a_symmetric_share(one: str, other: str) -> None:
    assert 0 <= overlap(one, other) == overlap(other, one) <= 1
    assert overlap(one, one) == 1
