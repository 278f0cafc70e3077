"""How the books of a run are closed: reconciled, sealed, and written to from many sides at once."""

import asyncio
from datetime import timedelta
from decimal import Decimal

import pytest
from attempts import LOST, START, answer, attempt, confirmed, fail, unsent

from perdure.adapters.stores.journal import SqlJournal
from perdure.domain.budget.journal import Proceed, Replayed, RunClosed
from perdure.domain.llm.usage import AttemptTotals, Usage


async def test_reconciling_books_what_is_open_once(journal: SqlJournal) -> None:
    await journal.begin(attempt())
    assert await journal.reconcile(attempt().key) == LOST
    assert await journal.reconcile(attempt().key) == LOST
    assert await journal.reconcile("exec-1/none") == AttemptTotals()


@pytest.mark.parametrize("close", ["reconcile", "seal"])
async def test_a_sum_that_was_settled_never_changes(journal: SqlJournal, close: str) -> None:
    await journal.begin(attempt())
    if close == "reconcile":
        settled = await journal.reconcile(attempt().key)
    else:
        settled = await journal.seal_and_sum("exec-1")
    await fail(journal, attempt(), tokens=5)
    assert await answer(journal, attempt(), tokens=9999)
    assert await journal.account(attempt().key) == settled == LOST


async def test_a_seal_ends_spending_of_one_execution(journal: SqlJournal) -> None:
    sibling = attempt(1, key="exec-2/5", execution="exec-2")
    for begun in (attempt(), attempt(1, key="exec-1/6"), sibling):
        await journal.begin(begun)
    await answer(journal, attempt())
    assert await journal.seal_and_sum("exec-1") == LOST + confirmed(7)
    assert await journal.seal_and_sum("exec-1") == LOST + confirmed(7)
    for refused in (attempt(2), attempt(1, key="exec-1/7")):
        assert await journal.begin(refused) == RunClosed(type="sealed")
    assert isinstance(await journal.begin(sibling), Proceed)
    assert await journal.seal_and_sum("never-ran") == AttemptTotals()


async def test_attempts_without_an_end_are_found(journal: SqlJournal) -> None:
    for begun in (attempt(), attempt(1, key="exec-2/5", execution="exec-2")):
        await journal.begin(begun)
    await answer(journal, attempt())
    later = START + timedelta(hours=1)
    assert [row.key for row in await journal.unended(before=later)] == ["exec-2/5"]
    assert await journal.unended(before=later - timedelta(hours=2)) == []
    await journal.reconcile("exec-2/5")
    assert await journal.unended(before=later) == []


async def test_rows_show_who_spent_what(journal: SqlJournal) -> None:
    await journal.begin(attempt())
    await answer(journal, attempt())
    await journal.begin(attempt(1, key="exec-1/6"))
    await journal.begin(attempt(1, key="exec-9/1", run="another"))
    first, second = await journal.rows("run")
    assert (first.role, first.phase, first.iteration) == ("executor", "execute", 1)
    assert (first.usage, first.cost_usd) == (Usage(output_tokens=7), Decimal("0.007"))
    assert (second.state, second.usage, second.cost_usd) == ("started", Usage(), Decimal(0))
    assert START <= first.started_at < second.started_at


async def test_parallel_answers_have_one_winner(journal: SqlJournal) -> None:
    numbers = range(1, 9)
    won = await asyncio.gather(*(answer(journal, attempt(n), f"reply {n}") for n in numbers))
    assert sorted(won) == [False] * 7 + [True]
    replayed = await journal.begin(attempt(99))
    assert isinstance(replayed, Replayed)
    assert replayed.reply == f"reply {won.index(True) + 1}"
    assert replayed.account.attempts == 8


async def test_parallel_begins_never_pass_a_seal(journal: SqlJournal) -> None:
    begun = [journal.begin(attempt(1, key=f"exec-1/{n}")) for n in range(12)]
    *results, account = await asyncio.gather(*begun, journal.seal_and_sum("exec-1"))
    proceeded = sum(isinstance(result, Proceed) for result in results)
    assert isinstance(account, AttemptTotals)
    assert account.lost_attempts == proceeded
    assert "started" not in {row.state for row in await journal.rows("run")}


async def test_a_cancelled_step_leaves_no_lock_behind(journal: SqlJournal) -> None:
    for spins in range(40):
        task = asyncio.create_task(journal.begin(attempt(1, key=f"exec-1/{spins}")))
        for _ in range(spins):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert isinstance(await journal.begin(attempt(1, key="exec-1/after")), Proceed)
    account = await journal.seal_and_sum("exec-1")
    assert account.lost_attempts == len(await journal.rows("run")) >= 1


async def test_an_attempt_that_was_never_sent_is_no_call(journal: SqlJournal) -> None:
    for number in (1, 2):
        await journal.begin(attempt(number))
        await unsent(journal, attempt(number))
    assert await journal.account("exec-1/5") == AttemptTotals()
    assert [(row.state, row.sent) for row in await journal.rows("run")] == [("failed", False)] * 2
    assert await journal.failing_models(["m", "other"], since=START) == {"m"}
    third = attempt(3, reservation_attempts=1)
    assert isinstance(await journal.begin(third), Proceed)
    await answer(journal, third)
    assert await journal.account("exec-1/5") == confirmed(7)


async def _lose(journal: SqlJournal, number: int, seconds: float = 2.0) -> None:
    """An attempt whose worker lives and ends it, because it was given up."""
    await journal.fail(
        attempt(number), usage=Usage(), cost_usd=Decimal(0), seconds=seconds, lost=True
    )


async def test_who_died_over_an_attempt_is_told_from_who_gave_it_up(journal: SqlJournal) -> None:
    key = attempt().key
    assert await journal.traces(key) == (0, 0)
    for number in (1, 2, 3):
        await journal.begin(attempt(number))
    assert await journal.traces(key) == (0, 3), "two were given up for others, one is open"
    before = await journal.account(key)
    await _lose(journal, 2)
    after = await journal.account(key)
    assert (after.total_usage, after.attempts) == (before.total_usage, before.attempts)
    assert after.seconds > before.seconds, "the time that it worked is known now"
    await _lose(journal, 3, seconds=0.0)
    assert await journal.traces(key) == (2, 1), "the first one's worker is silent"
    await journal.begin(attempt(4))
    await answer(journal, attempt(4))
    assert await journal.traces(key) == (3, 1)


async def test_the_end_of_an_attempt_changes_no_settled_row(journal: SqlJournal) -> None:
    await journal.begin(attempt())
    settled = await journal.reconcile(attempt().key)
    rows = await journal.rows("run")
    await _lose(journal, 1)
    assert await journal.account(attempt().key) == settled
    assert await journal.rows("run") == rows
