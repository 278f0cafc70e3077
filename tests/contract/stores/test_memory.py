"""Memory: what is put is found again, merged, counted once, and forgotten, in both databases."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.memory import SqlMemory
from perdure.adapters.stores.tables import memory as rows
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound, StoreError
from perdure.domain.memory.entries import Episode, Event, Learning, Origin, Pattern, Skill
from perdure.domain.memory.tokenizer import question_terms

START = datetime(2026, 1, 2, tzinfo=UTC)
RUN = Origin(run="refine-a", outcome="accepted")


@pytest.fixture
def memory(database: Database) -> SqlMemory:
    return SqlMemory(database)


def learning(name: str, text: str = "", /, **changes: object) -> Learning:
    plain = Learning(
        kind="learning",
        id=name,
        sort="fact",
        text=text or f"{name} is known",
        confidence=0.5,
        created=START,
        origins=(RUN,),
    )
    return plain.model_copy(update=changes)


def skill(name: str, **changes: object) -> Skill:
    plain = Skill(kind="skill", id=f"skill-{name.lower()}", name=name, created=START)
    return plain.model_copy(update=changes)


EVERY = (
    learning("l", "Use a sliding window", category="code"),
    Episode(
        kind="episode",
        id="e",
        goal="limit the rate",
        outcome="accepted",
        best_score=0.9,
        created=START,
    ),
    skill("Summary", categories=("chat", "mail"), text="# Steps\n1. Read \x27it\x27."),
    Pattern(kind="pattern", id="p", sort="hour", subject=("9", "chat"), created=START),
    Event(kind="event", id="v", created=START, outcome="failed", category="chat"),
)


@pytest.mark.parametrize("entry", EVERY, ids=[entry.kind for entry in EVERY])
async def test_every_kind_comes_back_as_it_was(memory: SqlMemory, entry) -> None:
    kept = await memory.put(entry)
    assert (kept.entry, kept.merged) == (entry, False)
    assert await memory.get(entry.id) == entry
    again = await memory.put(entry)
    assert (again.entry, again.merged) == (entry, True)
    assert list(await memory.list()) == [entry]


async def test_an_entry_is_got_by_a_unique_beginning(memory: SqlMemory) -> None:
    for name in ("ab", "abc", "abd", "x%"):
        await memory.put(learning(name, f"{name} {name}{name} text"))
    assert (await memory.get("ab")).id == "ab"
    assert (await memory.get("abc")).id == "abc"
    assert (await memory.get("x")).id == "x%"
    with pytest.raises(NotFound, match="no entry 'zz'"):
        await memory.get("zz")
    with pytest.raises(NotFound):
        await memory.get("%")
    with pytest.raises(NotFound):
        await memory.get("")
    with pytest.raises(InvalidInput, match="ab, abc, abd"):
        await memory.get("a")


@pytest.mark.parametrize(
    ("kinds", "category", "limit", "expected"),
    [
        ((), None, 10, ["e", "skill-summary", "l", "v"]),
        (("learning", "event"), None, 10, ["l", "v"]),
        ((), "CHAT", 10, ["skill-summary", "v"]),
        ((), "cha", 10, []),
        ((), "%", 10, []),
        ((), None, 2, ["e", "skill-summary"]),
    ],
    ids=["all", "kinds", "category", "part of a category", "wildcard", "limit"],
)
async def test_the_list_is_newest_first(
    memory: SqlMemory, kinds, category, limit, expected: list[str]
) -> None:
    moments = dict(zip(("v", "l", "skill-summary", "e"), range(4), strict=True))
    for entry in EVERY:
        if entry.id in moments:
            created = START + timedelta(hours=moments[entry.id])
            await memory.put(entry.model_copy(update={"created": created}))
    found = await memory.list(kinds=kinds, category=category, limit=limit)
    assert [entry.id for entry in found] == expected


async def test_candidates_share_a_term_and_come_with_counts(memory: SqlMemory) -> None:
    for entry in EVERY:
        await memory.put(entry)
    found = await memory.candidates(
        question_terms("Windows for the rate-limit of naïve chats", "code"),
        kinds=("learning", "episode", "skill"),
    )
    assert {entry.id for entry in found.entries} == {"l", "e", "skill-summary"}
    assert found.corpus.entries == 4
    assert found.corpus.holders == {"code": 1, "window": 1, "rate": 1, "limit": 1, "chat": 2}
    nothing = await memory.candidates(question_terms("zebra", None), kinds=("learning",))
    assert nothing.entries == ()
    assert (await memory.candidates((), kinds=("learning",))).entries == ()


async def test_candidates_of_a_changed_text_are_found_by_the_new_one(memory: SqlMemory) -> None:
    await memory.put(learning("l", "old words"))
    await memory.replace(learning("l", "fresh thoughts"))
    for text, expected in (("old", []), ("fresh", ["l"])):
        found = await memory.candidates(question_terms(text, None), kinds=("learning",))
        assert [entry.id for entry in found.entries] == expected
        assert found.corpus.holders == ({text: 1} if expected else {})
    await memory.forget("l")
    assert (await memory.candidates(("fresh",), kinds=("learning",))).corpus.holders == {}


async def test_common_terms_are_left_out_where_rare_ones_are_enough(memory: SqlMemory) -> None:
    numbers = ("one", "two", "three", "four", "five", "six")
    for number in numbers:
        await memory.put(learning(number, f"common {number} {number}x {number}y {number}z"))
    found = await memory.candidates(("common", "six"), kinds=("learning",), limit=3)
    assert [entry.id for entry in found.entries] == ["six"]
    assert found.corpus.holders == {"common": 6, "six": 1}


@pytest.mark.parametrize(
    "text",
    [
        "a" * 5_000,
        "日本語 の テスト",
        "x" * 100 + " NEAR AND OR NOT",
        "'; DROP -- \\ \" * ^",
        "Ünïcödé",
    ],
    ids=["long word", "cjk", "operators", "marks", "accents"],
)
async def test_any_text_is_found_by_itself(memory: SqlMemory, text: str) -> None:
    await memory.put(learning("l", f"{text} z"))
    found = await memory.candidates(question_terms(text, None), kinds=("learning",))
    assert [entry.id for entry in found.entries] == (["l"] if question_terms(text, None) else [])


async def test_a_near_duplicate_reinforces(memory: SqlMemory) -> None:
    first = learning("one", "Count requests per address, not only per user of the service")
    second = first.model_copy(
        update={
            "id": "two",
            "text": "Count requests per address, not only per user of a service.",
            "origins": (Origin(run="refine-b", outcome="accepted"),),
        }
    )
    await memory.put(first)
    for _ in range(2):
        kept = await memory.put(second)
        assert kept.merged
        assert kept.entry.id == "one"
        assert kept.entry.confidence == 0.625
        assert [origin.run for origin in kept.entry.origins] == ["refine-a", "refine-b"]
    assert len(await memory.list()) == 1


async def test_puts_at_once_add_one_entry(memory: SqlMemory) -> None:
    text = "Keep the window short when many clients share one address"
    entries = [
        learning(f"l{number}", text, origins=(Origin(run=f"r{number}", outcome="accepted"),))
        for number in range(6)
    ]
    await asyncio.gather(*(memory.put(entry) for entry in entries))
    (found,) = await memory.list()
    assert len(found.origins) == 6


async def test_a_skill_is_known_by_its_name_and_versioned(memory: SqlMemory) -> None:
    await memory.put(skill("Digest", text="one"))
    kept = await memory.put(skill("DIGEST", id="other", text="two"))
    assert kept.entry.id == "skill-digest"
    found = await memory.skill("digest")
    assert found is not None
    assert (found.name, found.version, found.text) == ("DIGEST", 2, "two")
    assert await memory.skill("none") is None
    with pytest.raises(NotAllowed, match="written by a person"):
        await memory.put(skill("digest", text="three", origins=(RUN,)))


async def test_uses_and_outcomes_count_once_a_run(memory: SqlMemory) -> None:
    await memory.put(skill("s", effectiveness=0.5))
    await memory.put(learning("l"))
    used = ("skill-s", "l", "gone")
    assert await memory.mark_used(used, run="r1", at=START + timedelta(days=2)) == 2
    assert await memory.mark_used(used, run="r1", at=START + timedelta(days=3)) == 0
    assert await memory.mark_used(("l",), run="r2", at=START + timedelta(days=1)) == 1
    assert await memory.used("r1") == ["l", "skill-s"]
    assert await memory.record_outcome("r1", accepted=True) == ["l", "skill-s"]
    assert await memory.record_outcome("r1", accepted=True) == []
    assert await memory.record_outcome("r2", accepted=False) == ["l"]
    known = await memory.get("l")
    assert (known.uses, known.successes) == (2, 1)
    assert known.last_used == START + timedelta(days=2)
    told = await memory.skill("s")
    assert told is not None
    assert (told.uses, told.successes, told.judged, told.effectiveness) == (1, 1, 1, 0.75)


async def test_another_outcome_of_a_run_takes_the_place_of_the_one_before(
    memory: SqlMemory,
) -> None:
    await memory.put(skill("s", effectiveness=0.5))
    await memory.put(learning("l"))
    await memory.mark_used(("skill-s", "l"), run="r1", at=START)
    seen: list[tuple[int, int, int, float]] = []
    for accepted in (False, True, False):
        for told in (["l", "skill-s"], []):
            assert await memory.record_outcome("r1", accepted=accepted) == told
            known, told_skill = await memory.get("l"), await memory.skill("s")
            assert told_skill is not None
            figures = (told_skill.successes, told_skill.judged, told_skill.effectiveness)
            seen.append((known.successes, *figures))
    assert seen[::2] == seen[1::2] == [(0, 0, 1, 0.25), (1, 1, 1, 0.75), (0, 0, 1, 0.25)]


async def test_uses_at_once_are_all_counted(memory: SqlMemory) -> None:
    await memory.put(learning("l"))
    await asyncio.gather(*(memory.mark_used(("l",), run=f"r{n}", at=START) for n in range(8)))
    assert (await memory.get("l")).uses == 8


async def test_forgetting_takes_one_entry(memory: SqlMemory) -> None:
    for name in ("a", "b"):
        await memory.put(learning(name))
    await memory.mark_used(("a",), run="r", at=START)
    await memory.forget("a")
    assert [entry.id for entry in await memory.list()] == ["b"]
    assert await memory.used("r") == []
    for absent in ("a", ""):
        with pytest.raises(NotFound, match="perdure memory list"):
            await memory.forget(absent)
        with pytest.raises(NotFound):
            await memory.replace(learning(absent or "c"))


@pytest.mark.parametrize("drop", ["forget", "forget_faded"])
async def test_an_entry_is_not_dropped_while_a_use_of_it_is_noted(
    memory: SqlMemory, monkeypatch: pytest.MonkeyPatch, drop: str
) -> None:
    await memory.put(learning("l", confidence=0.11, last_used=START, uses=1))
    later, execute = START + timedelta(weeks=4), AsyncConnection.execute
    dropping: list[asyncio.Task[object]] = []

    async def execute_and_drop(
        self: AsyncConnection, statement: Any, *more: Any, **how: Any
    ) -> Any:
        found = await execute(self, statement, *more, **how)
        if not dropping and "FROM memory" in str(statement):
            work = memory.forget("l") if drop == "forget" else memory.forget_faded(later)
            dropping.append(asyncio.create_task(work))
            await asyncio.wait(dropping, timeout=0.5)
        return found

    monkeypatch.setattr(AsyncConnection, "execute", execute_and_drop)
    assert await memory.mark_used(("l",), run="r", at=START) == 1
    await asyncio.gather(*dropping)
    assert await memory.list() == []


async def test_only_what_runs_wrote_and_time_faded_is_dropped(memory: SqlMemory) -> None:
    weak = {"confidence": 0.11, "last_used": START, "uses": 1}
    await memory.put(learning("faded", **weak))
    await memory.put(learning("by a person", **weak, origins=()))
    await memory.put(learning("unused", confidence=0.11))
    await memory.put(learning("strong", confidence=0.9, last_used=START))
    await memory.put(skill("s", **weak, origins=(RUN,)))
    assert await memory.forget_faded(START + timedelta(weeks=1)) == 0
    assert await memory.forget_faded(START + timedelta(weeks=4)) == 1
    assert await memory.forget_faded(START + timedelta(weeks=4)) == 0
    left = {entry.id for entry in await memory.list()}
    assert left == {"by a person", "unused", "strong", "skill-s"}


async def test_an_unreadable_entry_is_passed_over_named_and_can_be_dropped(
    memory: SqlMemory, database: Database
) -> None:
    for name in ("good", "later"):
        await memory.put(learning(name, f"oak {name} kept alone"))
    async with database.write() as connection:
        odd = update(rows).where(rows.c.id == "later").values(entry='{"kind": "telepathy"}')
        await connection.execute(odd)
    assert [entry.id for entry in await memory.list()] == ["good"]
    assert await memory.unreadable() == ["later"]
    found = await memory.candidates(question_terms("oak", None), kinds=("learning",))
    assert [entry.id for entry in found.entries] == ["good"]
    assert found.unreadable == ("later",)
    with pytest.raises(StoreError, match=r"entry later .* perdure memory forget later"):
        await memory.get("lat")
    await memory.forget("later")
    assert await memory.unreadable() == []
