"""Made tools: kept once by hash, with every maker, and with what a person decided."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.generated_tools import SqlMadeTools
from perdure.domain.foundation.errors import NotFound
from perdure.domain.generated_tools.record import GeneratedTool, ToolAuthor

START = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def store(database: Database) -> SqlMadeTools:
    return SqlMadeTools(database)


def tool(letter: str = "a", **changes: object) -> GeneratedTool:
    plain = GeneratedTool(
        hash=letter * 64,
        name=f"text.{letter}",
        description="Count words.",
        parameters={"type": "object", "properties": {"größe": {"type": "string"}}},
        code="sha256:" + letter * 64,
        handler="handler",
        pipeline=1,
        made_at=START,
    )
    return plain.model_copy(update=changes)


def maker(run: str = "delegation-x", *, after: int = 0) -> ToolAuthor:
    at = START + timedelta(seconds=after)
    return ToolAuthor(run=run, root=run.partition("/")[0], worker="w1", at=at)


async def test_a_tool_is_found_as_it_was_kept(store: SqlMadeTools) -> None:
    assert await store.get("a" * 64) is None
    assert await store.keep(tool(), maker()) == tool()
    assert await store.get("a" * 64) == tool()
    assert await store.makers("a" * 64) == [maker()]


async def test_the_same_tool_of_many_makers_is_kept_once(store: SqlMadeTools) -> None:
    makers = [maker(f"run-{n}/w", after=n) for n in range(6)]
    await asyncio.gather(*(store.keep(tool(), one) for one in (*makers, *makers)))
    assert await store.makers("a" * 64) == makers
    assert await store.list() == (tool(),)


async def test_a_decision_outlives_that_the_tool_is_made_again(store: SqlMadeTools) -> None:
    await store.keep(tool(), maker())
    decided = tool(state="rejected", decided_by="ada", decided_at=START)
    await store.decide(decided)
    assert await store.keep(tool(made_at=START + timedelta(1)), maker("other")) == decided
    newer = await store.keep(tool(pipeline=2), maker())
    assert newer == decided.model_copy(update={"pipeline": 2})
    assert await store.get("a" * 64) == newer
    assert await store.keep(tool(), maker()) == newer


async def test_a_decision_changes_nothing_else(store: SqlMadeTools) -> None:
    await store.keep(tool(), maker())
    await store.decide(tool(state="approved", decided_by="ada", name="other", pipeline=9))
    kept = await store.get("a" * 64)
    assert kept == tool(state="approved", decided_by="ada")


async def test_a_decision_about_an_unknown_tool_says_so(store: SqlMadeTools) -> None:
    with pytest.raises(NotFound, match="no made tool"):
        await store.decide(tool())


async def test_tools_are_listed_by_state_and_by_root_newest_first(store: SqlMadeTools) -> None:
    for number, letter in enumerate("abc"):
        made = tool(letter, made_at=START + timedelta(number))
        await store.keep(made, maker(f"run-{letter}/w"))
    await store.keep(tool("a"), maker("run-c/v"))
    await store.decide(tool("b", state="approved"))
    assert [one.name for one in await store.list()] == ["text.c", "text.b", "text.a"]
    assert [one.name for one in await store.list(limit=1)] == ["text.c"]
    assert [one.name for one in await store.list(state="approved")] == ["text.b"]
    assert [one.name for one in await store.list(root="run-c")] == ["text.c", "text.a"]
    assert await store.list(root="run-c", state="rejected") == ()


async def test_a_tool_is_found_by_name_or_by_the_beginning_of_its_hash(store: SqlMadeTools) -> None:
    older = tool("a", name="text.same")
    newer = tool("b", name="text.same", made_at=START + timedelta(1))
    for made in (older, newer, tool("c", name="text.Same")):
        await store.keep(made, maker())
    assert await store.find("text.same") == (newer, older)
    assert await store.find("bbbb") == (newer,)
    assert await store.find("A") == ()
    assert await store.find("%") == ()
