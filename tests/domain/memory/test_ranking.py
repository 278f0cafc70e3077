"""The order of what is recalled: total, and the same for any order of candidates."""

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remembering import START, avoid, candidates, corpora, learning, texts

from perdure.domain.memory.ranking import rank, relevance, selective
from perdure.domain.memory.store import Corpus
from perdure.domain.memory.tokenizer import question_terms

CORPUS = Corpus(entries=10, mean_terms=5, holders={"rare": 1, "common": 9, "all": 10, "half": 5})


@pytest.mark.parametrize(
    ("asked", "better", "worse"),
    [
        ("rare common", "rare x y", "common x y"),
        ("rare", "rare rare x", "rare x y"),
        ("rare", "rare x", "rare x y z w v u"),
        ("rare common", "rare common", "rare other"),
        ("all", "all", "nothing"),
    ],
    ids=["rarer", "more often", "shorter", "more terms", "in every text"],
)
def test_relevance(asked: str, better: str, worse: str) -> None:
    terms = asked.split()
    assert relevance(terms, better.split(), CORPUS) > relevance(terms, worse.split(), CORPUS) >= 0


def test_relevance_is_bm25() -> None:
    # ln(1 + (10 - 1 + 0.5) / 1.5) × 2 × 2.2 / (2 + 1.2 × (0.25 + 0.75 × 4 / 5))
    assert relevance(["rare"], ["rare", "rare", "x", "y"], CORPUS) == pytest.approx(
        2.902878, abs=1e-6
    )


def test_the_rarest_terms_are_enough() -> None:
    asked = ("common", "unknown", "half", "rare", "rare")
    assert selective(asked, CORPUS, limit=100) == ("rare", "half", "common")
    assert selective(asked, CORPUS, limit=6) == ("rare", "half")
    assert selective(("all", "common"), CORPUS, limit=1) == ("common",)
    assert selective((), CORPUS, limit=1) == ()


def test_anti_patterns_come_first_then_the_better_known_and_newer() -> None:
    now = START + timedelta(weeks=10)
    entries = [
        learning("weak", "rate limit", confidence=0.2),
        learning("strong", "rate limit", confidence=0.9),
        learning("fresh", "rate limit", confidence=0.9, created=now),
        learning("idle", "rate limit", confidence=0.9, last_used=START, uses=1),
        learning("elsewhere", "cake"),
        avoid("dont", "limit", confidence=0.1),
    ]
    ranked = rank(question_terms("rate limits", None), candidates(*entries), now=now)
    assert [item.entry.id for item in ranked] == ["dont", "fresh", "strong", "idle", "weak"]


@given(corpora(), texts(), st.randoms(use_true_random=False))
def test_the_order_is_total_and_does_not_depend_on_the_store(
    entries, asked: str, chance: random.Random
) -> None:
    now = START + timedelta(weeks=60)
    found = candidates(*entries)
    ranked = rank(question_terms(asked, None), found, now=now)
    shuffled = list(entries)
    chance.shuffle(shuffled)
    other = found.model_copy(update={"entries": tuple(shuffled)})
    assert rank(question_terms(asked, None), other, now=now) == ranked
    assert len({item.entry.id for item in ranked}) == len(ranked)
    avoided = [getattr(item.entry, "sort", "") == "anti_pattern" for item in ranked]
    assert avoided == sorted(avoided, reverse=True)
