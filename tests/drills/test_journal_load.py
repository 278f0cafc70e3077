"""Two hundred model calls in flight at once, of two workers, in one journal on PostgreSQL.

No row is lost or doubled, and every sum is right. The server counts its own time for each
statement; the slowest are named with their plans: `pytest tests/drills/test_journal_load.py -s`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from decimal import Decimal

import psycopg
import pytest
from attempts import answer, attempt, fail, unsent
from grown import grow
from postgresql import stoppable

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.journal import SqlJournal
from perdure.domain.budget.journal import Attempt, AttemptRow
from perdure.domain.llm.usage import Usage

AT_ONCE, EACH = 200, 5
ROWS = 20_000
SHOWN = 3
Call = Callable[["Workers", int], Awaitable[None]]


@dataclass(frozen=True)
class Workers:
    """Two workers with a journal each, on one server."""

    first: SqlJournal
    second: SqlJournal


def of(number: int, tries: int = 1) -> Attempt:
    """An attempt of a call whose key, execution and run are its own."""
    return attempt(
        tries, key=f"exec-{number}/5", execution=f"exec-{number}", run=f"load-{number}",
        estimate=Usage(input_tokens=100), estimate_cost_usd=Decimal("0.10"),
    )  # fmt: skip


async def answered_at_once(to: Workers, n: int) -> None:
    assert (await to.first.begin(of(n))).type == "proceed"
    await to.first.expect(of(n), usage=Usage(output_tokens=3), cost_usd=Decimal("0.003"))
    assert await answer(to.first, of(n))
    assert (await to.second.begin(of(n, 2))).type == "replayed"


async def answered_at_the_second_attempt(to: Workers, n: int) -> None:
    await to.first.begin(of(n))
    await fail(to.first, of(n))
    assert (await to.second.begin(of(n, 2))).type == "proceed"
    assert await answer(to.second, of(n, 2))


async def answered_late(to: Workers, n: int) -> None:
    """The first worker was given up, and lives."""
    await to.first.begin(of(n))
    assert (await to.second.begin(of(n, 2))).type == "proceed"
    told = await asyncio.gather(
        answer(to.first, of(n), "one"), answer(to.second, of(n, 2), "other")
    )
    assert sorted(told) == [False, True], "one reply is taken"


async def told_twice(to: Workers, n: int) -> None:
    """One answer over two connections, as after a commit whose answer got lost."""
    await asyncio.gather(to.first.begin(of(n)), to.second.begin(of(n)))
    assert await asyncio.gather(answer(to.first, of(n)), answer(to.second, of(n))) == [True, True]


async def never_sent(to: Workers, n: int) -> None:
    await to.first.begin(of(n))
    await unsent(to.first, of(n))
    assert (await to.second.begin(of(n, 2))).type == "proceed"
    assert await answer(to.second, of(n, 2))


ONE, TWO = Decimal("0.007"), Decimal("0.014")
GIVEN_UP = Decimal("0.10") + ONE
# What each may leave: the states of its attempts, and what they cost together. The sum that went
# out with a reply stays: an answer later than that leaves its attempt at the estimate.
KINDS: Sequence[tuple[Call, set[tuple[tuple[str, ...], Decimal]]]] = (
    (answered_at_once, {(("answered",), ONE)}),
    (answered_at_the_second_attempt, {(("failed", "answered"), TWO)}),
    (answered_late, {(("answered", "duplicate"), TWO), (("duplicate", "answered"), GIVEN_UP)}),
    (told_twice, {(("answered",), ONE)}),
    (never_sent, {(("failed", "answered"), ONE)}),
)


@pytest.fixture
async def server() -> AsyncGenerator[tuple[Workers, str]]:
    """A server that measures its statements, with the rows of many runs."""
    with stoppable() as postgresql:
        with psycopg.connect(postgresql.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
        postgresql.stop()
        postgresql.start()
        async with AsyncExitStack() as stack:
            opened: list[Database] = []
            for _ in range(2):
                database = await Database.open(postgresql.url)
                stack.push_async_callback(database.close)
                opened.append(database)
            await grow(opened[0], ROWS)
            with psycopg.connect(postgresql.url, autocommit=True) as connection:
                connection.execute("CREATE EXTENSION pg_stat_statements")
            yield Workers(*(SqlJournal(one) for one in opened)), postgresql.url


@pytest.mark.slow
async def test_two_hundred_calls_at_once_lose_and_double_nothing(
    server: tuple[Workers, str],
) -> None:
    workers, url = server

    async def caller(lane: int) -> None:
        for turn in range(EACH):
            number = lane * EACH + turn
            await KINDS[number % len(KINDS)][0](workers, number)

    await asyncio.gather(*(caller(lane) for lane in range(AT_ONCE)))
    for number in range(AT_ONCE * EACH):
        rows = await workers.first.rows(f"load-{number}")
        _, ends = KINDS[number % len(KINDS)]
        assert (tuple(row.state for row in rows), paid(rows)) in ends, (number, rows)
        assert [row.attempt for row in rows] == list(range(1, len(rows) + 1))
        assert len(await workers.second.replies(f"load-{number}")) == 1
    found = slowest(url)
    assert len(found) == SHOWN
    for line in found:
        print(line)


def paid(rows: Sequence[AttemptRow]) -> Decimal:
    """What the attempts of a call cost together."""
    return sum((row.cost_usd or Decimal(0) for row in rows), Decimal(0))


def slowest(url: str) -> list[str]:
    """The statements of the journal that took the server longest in all, each with its plan."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT query, calls, mean_exec_time, max_exec_time FROM pg_stat_statements"
            " WHERE query ~ 'attempts|replies|seals' AND calls >= %s"
            " ORDER BY total_exec_time DESC LIMIT %s",
            (AT_ONCE, SHOWN),
        ).fetchall()
        told: list[str] = []
        for query, calls, mean, longest in found:
            head = " ".join(query.split())[:160]
            figures = f"{calls} times, {mean:.2f} ms in the mean, {longest:.2f} ms at most"
            explained = f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {query}".encode()
            plan = connection.execute(explained).fetchall()
            told.append("\n".join([f"{figures}: {head}", *(f"    {line}" for (line,) in plan)]))
        return told
