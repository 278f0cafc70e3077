"""Both databases give the same recall, in the same order, over one varied corpus."""

import random
from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
from remembering import START, avoid, episode, learning, skill

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.memory import SqlMemory
from perdure.domain.memory.entries import Kind, MemoryEntry
from perdure.domain.memory.ranking import Ranked, rank
from perdure.domain.memory.tokenizer import question_terms

LEARNINGS = 240
QUESTIONS = 60
NOW = START + timedelta(weeks=80)
KINDS: tuple[Kind, ...] = ("learning", "episode", "skill")
CATEGORIES = (None, "code", "release notes", "mail", "données")
STEMS = (
    "rate limit window address token cache retry queue timeout login session password header"
    " naïve café größe 東京 データ v2 3.11 utf-8 snake_case it's don't parse schema column index"
    " migration lock deadlock worker signal replay budget prompt rubric judge score finding"
    " release note commit branch merge conflict patch review test lint type import module"
)
# The rest of the vocabulary is rare: figures and made-up names, as real notes have them.
WORDS = (*STEMS.split(), *(f"name{number}" for number in range(120)))


def sentence(chance: random.Random, *, least: int, most: int) -> str:
    """Words with some far more common than others, in any case and with marks between."""
    count = chance.randint(least, most)
    picked = [WORDS[int(len(WORDS) * chance.random() ** 2)] for _ in range(count)]
    dressed = [chance.choice((word, word.upper(), f"({word})", f"{word},")) for word in picked]
    return " ".join(dressed)


def corpus(chance: random.Random) -> list[MemoryEntry]:
    """Learnings of all ages and kinds, some episodes and skills."""
    entries: list[MemoryEntry] = []
    for number in range(LEARNINGS):
        make = avoid if number % 5 == 0 else learning
        used = None if number % 3 else START + timedelta(weeks=chance.randint(0, 80))
        entries.append(
            make(
                f"l{number:03}",
                sentence(chance, least=3, most=25),
                category=chance.choice(CATEGORIES),
                confidence=chance.choice((0.3, 0.5, 0.7, 0.9, 1.0)),
                created=START + timedelta(hours=chance.randint(0, 13_000)),
                last_used=used,
                uses=int(used is not None),
            )
        )
    for number in range(30):
        goal = sentence(chance, least=2, most=12)
        entries.append(episode(f"e{number}", goal, text=sentence(chance, least=0, most=9)))
        body = sentence(chance, least=0, most=60)
        named = tuple(name for name in CATEGORIES[1:] if chance.random() < 0.3)
        entries.append(skill(f"s{number}", text=body, categories=named))
    return entries


@pytest.fixture
async def both(sqlite_url: str, postgresql_url: str) -> AsyncGenerator[tuple[SqlMemory, ...]]:
    databases = [await Database.open(url) for url in (sqlite_url, postgresql_url)]
    yield tuple(SqlMemory(database) for database in databases)
    for database in databases:
        await database.close()


async def recall(memory: SqlMemory, asked: tuple[str, ...], *, limit: int) -> tuple[Ranked, ...]:
    return rank(asked, await memory.candidates(asked, kinds=KINDS, limit=limit), now=NOW)


@pytest.mark.long
async def test_the_same_order_in_both_databases(both: tuple[SqlMemory, ...]) -> None:
    chance = random.Random(20260102)
    entries = corpus(chance)
    for memory in both:
        for entry in entries:
            await memory.put(entry)
        await memory.mark_used(("l001", "s1", "e1"), run="r", at=NOW - timedelta(weeks=3))
        await memory.forget("l002")
        await memory.put(entries[7].model_copy(update={"id": "again", "origins": ()}))
    sizes: list[int] = []
    for number in range(QUESTIONS):
        text = sentence(chance, least=1, most=30)
        asked = question_terms(text, chance.choice(CATEGORIES))
        limit = (500, 40)[number % 2]
        in_sqlite, in_postgresql = [await recall(memory, asked, limit=limit) for memory in both]
        assert in_sqlite == in_postgresql, text
        sizes.append(len(in_sqlite))
    # The questions are worth asking: most find much, and they differ.
    assert sum(size > 10 for size in sizes) > QUESTIONS / 2
    assert len(set(sizes)) > 10


@pytest.mark.long
async def test_the_best_of_a_store_is_the_best_of_all_entries(both: tuple[SqlMemory, ...]) -> None:
    chance = random.Random(7)
    entries = corpus(chance)
    for entry in entries:
        await both[0].put(entry)
    for _ in range(10):
        asked = question_terms(sentence(chance, least=2, most=8), None)
        found = await recall(both[0], asked, limit=10_000)
        corpus_counts = (await both[0].candidates(asked, kinds=KINDS)).corpus
        everything = [
            item for kind in KINDS for item in await both[0].list(kinds=(kind,), limit=999)
        ]
        whole = {"entries": tuple(everything), "corpus": corpus_counts}
        assert found == rank(
            asked, (await both[0].candidates((), kinds=KINDS)).model_copy(update=whole), now=NOW
        )
