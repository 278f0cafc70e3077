"""Figures for monitoring, from both databases: what is counted never falls."""

import itertools
from datetime import datetime, timedelta
from decimal import Decimal

import psycopg
import pytest
from account_books import FIRST, Books
from attempts import attempt
from old_rows import put_as_before
from sqlalchemy import delete

from perdure.adapters.stores import call_totals, migrations
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.erasure import SqlErasure
from perdure.adapters.stores.figures import WHOLE, SqlFigures
from perdure.adapters.stores.notices import SqlNotices
from perdure.adapters.stores.tables import attempts, schedule_starts
from perdure.domain.budget.journal import Attempt
from perdure.domain.llm.usage import Usage
from perdure.domain.run.figures import CallSums, RunState, added_up
from perdure.domain.run.notices import Notice, sent_again
from perdure.domain.run.status import StoredRun

TOTALS = 31
ACCEPTED = RunState("refine", "completed", "accepted")
FAILED = RunState("refine", "failed", "failed")
ESTIMATE, COST = Decimal("5.00"), Decimal("0.01")
EARLIER, LATER = FIRST - timedelta(days=1), FIRST + timedelta(days=1)
USED = Usage(input_tokens=10, output_tokens=2, cache_read_tokens=1)


@pytest.fixture
def books(database: Database) -> Books:
    return Books(database)


@pytest.fixture
def figures(database: Database) -> SqlFigures:
    return SqlFigures(database)


def row(id: str, state: RunState | None) -> StoredRun:
    """Ended as `state` says, or open."""
    return StoredRun(
        id=id, kind="refine", goal="g", label=None,
        lifecycle="running" if state is None else state.lifecycle,
        outcome=None if state is None else state.outcome, started_at=FIRST,
        ended_at=None if state is None else FIRST,
    )  # fmt: skip


async def summed(figures: SqlFigures, *, lost_before: datetime = EARLIER) -> CallSums:
    """All calls of the model `m` together, after all was added that can be."""
    while not await figures.count_calls(lost_before=lost_before):
        pass
    whole = CallSums(model="m", phase="")
    for line in await figures.calls():
        if line.model == "m":
            whole = whole.plus(line)
    return whole


async def test_runs_are_counted_by_how_they_stand(books: Books, figures: SqlFigures) -> None:
    await books.run("a")
    await books.run("b")
    await books.run("c", kind="agent")
    await books.records.put_run(row("d", None))
    assert await figures.runs() == {
        RunState("refine", "ended", "accepted"): 2,
        RunState("agent", "ended", "accepted"): 1,
        RunState("refine", "running", ""): 1,
    }


async def test_an_end_is_counted_once_and_stays_when_its_run_goes(
    books: Books, database: Database, figures: SqlFigures
) -> None:
    records = books.records
    for id in ("a", "b", "c"):
        await records.claim_run(row(id, None), seen=None)
        assert await records.claim_run(row(id, None), seen=None) is False
    for _ in range(2):  # every write may be repeated
        await records.put_run(row("a", FAILED))
        await records.put_run(row("b", ACCEPTED))
    assert await figures.ends() == {FAILED: 1, ACCEPTED: 1}
    # It was retried, and came to a better end.
    assert await records.reopen_run(row("a", None), ended_at=FIRST)
    assert await figures.runs() == {ACCEPTED: 1, RunState("refine", "running", ""): 2}
    await records.put_run(row("a", ACCEPTED))
    assert await figures.ends() == {FAILED: 1, ACCEPTED: 2}
    # Told otherwise later, it is the same end.
    await records.put_run(row("a", FAILED))
    assert await figures.runs() == {ACCEPTED: 1, FAILED: 1, RunState("refine", "running", ""): 1}
    assert await figures.ends() == {FAILED: 1, ACCEPTED: 2}
    await SqlErasure(database).drop(["a"])
    await records.delete_run("b")
    await records.delete_run("c")
    assert await figures.runs() == {}
    assert await figures.ends() == {FAILED: 1, ACCEPTED: 2}


async def test_runs_from_before_the_totals_are_among_them(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = migrations.migrations
    with monkeypatch.context() as patched:
        before = lambda dialect: tuple(s for s in steps(dialect) if s.number < TOTALS)  # noqa: E731
        patched.setattr(migrations, "migrations", before)
        old = await Database.open(database_url)
        await put_as_before(old, row("a", FAILED))
        await put_as_before(old, row("b", None))
        await old.close()
    opened = await Database.open(database_url)
    assert await SqlFigures(opened).ends() == {FAILED: 1}
    assert await SqlFigures(opened).runs() == {FAILED: 1, RunState("refine", "running", ""): 1}
    await opened.close()


async def test_calls_are_added_up_by_model_and_phase(books: Books, figures: SqlFigures) -> None:
    await books.call("0.25")
    await books.call("0.5", confirmed=False)
    await books.call(None)
    await books.call("0", sent=False)
    await books.call("4", model="other")
    assert await summed(figures) == CallSums(
        model="m",
        phase="",
        calls=3,
        unconfirmed=1,
        usage=Usage(input_tokens=30, output_tokens=6, cache_read_tokens=3),
        cost_usd=0.75,
    )
    (other,) = [line for line in await figures.calls() if line.model == "other"]
    assert (other.phase, other.calls, other.cost_usd) == ("execute", 1, 4.0)


async def test_a_page_at_a_time_comes_to_the_same(
    books: Books, figures: SqlFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_totals, "PAGE", 2)
    for day in range(5):
        await books.call("1", days=day)
    assert await figures.count_calls(lost_before=FIRST) is False
    assert (await summed(figures)).calls == 5
    assert await figures.count_calls(lost_before=FIRST) is True
    assert (await summed(figures)).calls == 5


def lost() -> Attempt:
    return attempt(estimate_cost_usd=ESTIMATE)


async def test_a_lost_call_waits_until_its_worker_can_report_no_more(
    books: Books, figures: SqlFigures
) -> None:
    first = lost()
    await books.journal.begin(first)
    assert (await summed(figures)).calls == 0
    await books.journal.fail(first, usage=Usage(), cost_usd=None, seconds=1, lost=True)
    assert (await summed(figures)).cost_usd == 0
    (waits,) = await figures.unsettled()
    assert (waits.model, waits.calls, waits.cost_usd) == ("m", 1, 5.0)
    # It was not dead.
    await books.journal.answer(first, usage=USED, cost_usd=COST, reply="r", seconds=1)
    found = await summed(figures)
    assert (found.calls, found.unconfirmed, found.cost_usd) == (1, 0, 0.01)
    assert await figures.unsettled() == []


async def test_a_lost_call_counts_as_soon_as_another_attempt_has_answered(
    books: Books, figures: SqlFigures
) -> None:
    first, second = lost(), attempt(2)
    await books.journal.begin(first)
    await books.journal.begin(second)
    await books.journal.answer(second, usage=USED, cost_usd=COST, reply="r", seconds=1)
    found = await summed(figures)
    assert (found.calls, found.unconfirmed, found.cost_usd) == (2, 1, 5.01)
    assert await figures.unsettled() == []


async def test_what_comes_after_a_lost_call_was_counted_changes_nothing(
    books: Books, figures: SqlFigures
) -> None:
    first = lost()
    await books.journal.begin(first)
    await books.journal.fail(first, usage=Usage(), cost_usd=None, seconds=1, lost=True)
    before = await summed(figures, lost_before=LATER)
    assert (before.calls, before.unconfirmed, before.cost_usd) == (1, 1, 5.0)
    await books.journal.answer(first, usage=USED, cost_usd=COST, reply="r", seconds=1)
    assert await summed(figures, lost_before=LATER) == before


async def test_sums_outlive_the_rows_and_the_process(
    books: Books, database: Database, figures: SqlFigures
) -> None:
    await books.call("0.25")
    before = await summed(figures)
    async with database.write() as connection:
        await connection.exec_driver_sql("DELETE FROM replies")
        await connection.execute(delete(attempts))
    assert await summed(SqlFigures(database)) == before


async def _lose(books: Books, of: Attempt) -> None:
    await books.journal.fail(of, usage=Usage(), cost_usd=None, seconds=1, lost=True)


async def _prove_unsent(books: Books, of: Attempt) -> None:
    await books.journal.fail(of, usage=Usage(), cost_usd=Decimal(0), seconds=0, sent=False)


async def _fail(books: Books, of: Attempt) -> None:
    await books.journal.fail(of, usage=USED, cost_usd=COST, seconds=1)


async def _answer(books: Books, of: Attempt) -> None:
    await books.journal.answer(of, usage=USED, cost_usd=COST, reply="r", seconds=1)


async def _try_again(books: Books, of: Attempt) -> None:
    await books.journal.begin(of.model_copy(update={"attempt": of.attempt + 1}))


async def _seal(books: Books, of: Attempt) -> None:
    await books.journal.seal_and_sum(of.execution)


async def _wait(_: Books, of: Attempt) -> None:
    """Nothing comes for an hour."""


STEPS = (_lose, _prove_unsent, _fail, _answer, _try_again, _seal, _wait)


async def test_no_sum_ever_falls_whatever_the_journal_learns(
    books: Books, figures: SqlFigures
) -> None:
    seen: dict[tuple[str, str], CallSums] = {}
    for number, steps in enumerate(itertools.product(STEPS, repeat=2)):
        of = attempt(key=f"k{number}", execution=f"e{number}", estimate_cost_usd=ESTIMATE)
        await books.journal.begin(of)
        for step in steps:
            await step(books, of)
            while not await figures.count_calls(lost_before=LATER if step is _wait else EARLIER):
                pass
            found = added_up(await figures.calls())
            for name, before in seen.items():
                assert all(
                    now >= then
                    for now, then in zip(_numbers(found[name]), _numbers(before), strict=True)
                ), [one.__name__ for one in steps]
            seen = found
    assert seen["m", "execute"].unconfirmed > 0


def _numbers(line: CallSums) -> list[float]:
    return [line.calls, line.unconfirmed, line.cost_usd, *line.usage.model_dump().values()]


async def test_notices_that_were_given_up_of_late_are_counted(
    database: Database, figures: SqlFigures
) -> None:
    outbox = SqlNotices(database)
    ends = {"a": EARLIER, "b": FIRST, "c": LATER}
    for id, ended in ends.items():
        notice = Notice(
            id=id, run="r", gate="g", event={}, state="dead", due_at=EARLIER, made_at=EARLIER,
            ended_at=ended,
        )  # fmt: skip
        await outbox.put(notice)
        await outbox.put(notice.model_copy(update={"id": f"{id}-sent", "state": "delivered"}))
        await outbox.put(notice.model_copy(update={"id": f"{id}-late", "state": "dropped"}))
    assert await figures.dead_notices(since=FIRST) == 2
    found = await outbox.notice("c")
    assert found is not None
    assert await outbox.renew(sent_again(found, now=LATER), seen=found)
    assert await figures.dead_notices(since=FIRST) == 1


async def test_starts_that_were_refused_of_late_are_counted_by_schedule(
    database: Database, figures: SqlFigures
) -> None:
    starts = [("a", EARLIER, "spent"), ("a", FIRST, "spent"), ("a", LATER, None), ("b", LATER, "x")]
    async with database.write() as connection:
        for number, (schedule, at, refused) in enumerate(starts):
            values = {"run": f"r{number}", "schedule": schedule, "at": at, "refused": refused}
            await connection.execute(schedule_starts.insert().values(lowered=False, **values))
    assert await figures.refused_starts(since=FIRST) == {"a": 1, "b": 1}


async def test_sizes_are_those_of_our_tables(
    books: Books, database: Database, figures: SqlFigures
) -> None:
    await books.run("a")
    sizes = await figures.sizes()
    if database.dialect_name == "sqlite":
        assert sizes.keys() == {WHOLE}
    else:
        assert {"runs", "attempts", "blobs"} <= sizes.keys()
        assert "schema_versions" not in sizes
    assert min(sizes.values()) > 0


async def test_a_schema_may_have_any_name(postgresql_url: str) -> None:
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute('CREATE SCHEMA "My-Team"')
    try:
        database = await Database.open(f"{postgresql_url}&options=-c%20search_path=%22My-Team%22")
        try:
            assert "runs" in await SqlFigures(database).sizes()
        finally:
            await database.close()
    finally:
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            connection.execute('DROP SCHEMA "My-Team" CASCADE')
