"""The journal: one reply counts, everything spent is booked, and reported sums stay."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypedDict, Unpack

import pytest

from perdure.adapters.stores import Database
from perdure.adapters.stores.journal import SqlJournal
from perdure.domain.ports import Attempt, DoesNotFit, Proceed, Replayed, Sealed
from perdure.domain.usage import Account, Usage

START = datetime(2026, 1, 2, tzinfo=UTC)
ESTIMATE = Usage(input_tokens=100)
ESTIMATE_COST = Decimal("0.10")


class Changes(TypedDict, total=False):
    key: str
    execution: str
    run: str
    request_hash: str
    estimate: Usage
    estimate_cost_usd: Decimal | None
    reservation_tokens: int | None
    reservation_cost_usd: Decimal | None
    reservation_attempts: int | None
    reservation_output_tokens: int | None


def attempt(number: int = 1, **changes: Unpack[Changes]) -> Attempt:
    plain = Attempt(
        key="exec-1/5",
        attempt=number,
        execution="exec-1",
        root="root",
        run="run",
        phase="execute",
        role="executor",
        iteration=1,
        model="m",
        request_hash="a" * 64,
        estimate=ESTIMATE,
        estimate_cost_usd=ESTIMATE_COST,
    )
    return plain.model_copy(update=dict(changes))


@pytest.fixture
def journal(database: Database) -> SqlJournal:
    ticks = iter(range(1_000_000))
    return SqlJournal(database, now=lambda: START + timedelta(seconds=next(ticks)))


async def answer(
    journal: SqlJournal, of: Attempt, reply: str = "reply", *, tokens: int = 7
) -> bool:
    return await journal.answer(
        of,
        usage=Usage(output_tokens=tokens),
        cost_usd=Decimal(tokens) / 1000,
        reply=reply,
        seconds=1.5,
    )


async def fail(journal: SqlJournal, of: Attempt, *, tokens: int = 7, lost: bool = False) -> None:
    await journal.fail(
        of,
        usage=Usage(output_tokens=tokens),
        cost_usd=Decimal(tokens) / 1000,
        seconds=1.5,
        lost=lost,
    )


async def unsent(journal: SqlJournal, of: Attempt) -> None:
    await journal.fail(of, usage=Usage(), cost_usd=Decimal(0), seconds=0.0, sent=False)


def confirmed(*tokens: int) -> Account:
    return Account(
        attempts=len(tokens),
        usage=Usage(output_tokens=sum(tokens)),
        cost_usd=Decimal(sum(tokens)) / 1000,
        seconds=1.5 * len(tokens),
    )


LOST = Account(
    attempts=1, unconfirmed=ESTIMATE, unconfirmed_cost_usd=ESTIMATE_COST, lost_attempts=1
)


async def states(journal: SqlJournal, run: str = "run") -> list[tuple[int, str]]:
    return [(row.attempt, row.state) for row in await journal.rows(run)]


async def test_an_answered_call_is_replayed_not_repeated(journal: SqlJournal) -> None:
    assert await journal.begin(attempt()) == Proceed(type="proceed")
    assert await answer(journal, attempt())
    replayed = await journal.begin(attempt(2))
    assert replayed == Replayed(type="replayed", reply="reply", account=confirmed(7))
    assert await journal.account(attempt().key) == confirmed(7)


async def test_a_retry_books_the_attempt_that_died(journal: SqlJournal) -> None:
    await journal.begin(attempt())
    await journal.begin(attempt(2))
    await answer(journal, attempt(2))
    assert await states(journal) == [(1, "lost"), (2, "answered")]
    assert await journal.account(attempt().key) == LOST + confirmed(7)


OTHER = attempt(2, request_hash="b" * 64)


async def test_another_request_under_the_same_key_is_asked_anew_and_booked(
    journal: SqlJournal,
) -> None:
    """As after an upgrade whose code puts the same question otherwise."""
    await journal.begin(attempt())
    await answer(journal, attempt(), "of the old version")
    assert await journal.answered(OTHER.key, OTHER.request_hash) is None
    assert await journal.begin(OTHER) == Proceed(type="proceed")
    assert await answer(journal, OTHER, "of the new version", tokens=5)
    assert await states(journal) == [(1, "duplicate"), (2, "answered")]
    account = await journal.account(OTHER.key)
    assert account.usage == Usage(output_tokens=5)
    assert account.unconfirmed == Usage(output_tokens=7)
    found = await journal.answered(OTHER.key, OTHER.request_hash)
    assert found is not None
    assert found.reply == "of the new version"


async def test_a_late_reply_to_the_request_of_the_old_version_replaces_nothing(
    journal: SqlJournal,
) -> None:
    await journal.begin(attempt())
    await journal.begin(OTHER)
    await answer(journal, OTHER, "of the new version")
    assert not await answer(journal, attempt(), "of the old version")
    found = await journal.answered(OTHER.key, OTHER.request_hash)
    assert found is not None
    assert found.reply == "of the new version"
    assert await states(journal) == [(1, "duplicate"), (2, "answered")]


async def test_a_reply_of_the_old_version_waits_for_nobody(journal: SqlJournal) -> None:
    """The old worker answers while the new one is asking: the newer question's reply counts."""
    await journal.begin(attempt())
    await journal.begin(OTHER)
    assert await answer(journal, attempt(), "of the old version")
    assert await answer(journal, OTHER, "of the new version")
    assert await states(journal) == [(1, "duplicate"), (2, "answered")]


async def test_the_first_reply_wins_and_the_second_is_booked(journal: SqlJournal) -> None:
    """A worker taken for dead answers while its successor is still calling."""
    await journal.begin(attempt())
    await journal.begin(attempt(2))
    assert await answer(journal, attempt(), "first", tokens=3)
    assert not await answer(journal, attempt(2), "second", tokens=5)
    account = await journal.account(attempt().key)
    assert account.usage == Usage(output_tokens=3)
    assert account.unconfirmed == Usage(output_tokens=5)
    assert account.unconfirmed_cost_usd == Decimal("0.005")
    assert account.lost_attempts == 0
    assert await states(journal) == [(1, "answered"), (2, "duplicate")]
    assert (await journal.begin(attempt(3))).model_dump()["reply"] == "first"


async def test_a_late_duplicate_leaves_the_reported_sum(journal: SqlJournal) -> None:
    """The successor answered and reported; the run was told the estimate, and it stays."""
    await journal.begin(attempt())
    await journal.begin(attempt(2))
    await answer(journal, attempt(2), "second")
    reported = await journal.account(attempt().key)
    assert not await answer(journal, attempt(), "late", tokens=9999)
    assert await journal.account(attempt().key) == reported == LOST + confirmed(7)
    assert await states(journal) == [(1, "duplicate"), (2, "answered")]


async def test_a_late_failure_corrects_the_estimate_of_an_unfinished_key(
    journal: SqlJournal,
) -> None:
    await journal.begin(attempt())
    await journal.begin(attempt(2))
    await fail(journal, attempt(), tokens=2)
    await answer(journal, attempt(2))
    assert await journal.account(attempt().key) == confirmed(2, 7)


async def test_a_reply_books_older_attempts_that_began_late(journal: SqlJournal) -> None:
    """A slow worker opens its attempt after its successor, and is never heard of again."""
    await journal.begin(attempt(2))
    await journal.begin(attempt(1))
    await answer(journal, attempt(2))
    assert await journal.account(attempt().key) == LOST + confirmed(7)


@pytest.mark.parametrize(
    ("lost", "expected"), [(False, confirmed(7)), (True, LOST)], ids=["reported", "unknown"]
)
async def test_a_failure_is_paid_for(journal: SqlJournal, lost: bool, expected: Account) -> None:
    await journal.begin(attempt())
    await fail(journal, attempt(), lost=lost)
    account = await journal.account(attempt().key)
    assert account.model_copy(update={"seconds": expected.seconds}) == expected
    assert account.seconds == 1.5


async def test_reports_may_repeat(journal: SqlJournal) -> None:
    """A step that did not hear of a commit reports again."""
    await journal.begin(attempt())
    await journal.begin(attempt())
    assert await answer(journal, attempt())
    assert await answer(journal, attempt())
    assert not await answer(journal, attempt(), "something else")
    await fail(journal, attempt(), tokens=1)
    await journal.begin(attempt(2, key="exec-1/6"))
    await fail(journal, attempt(2, key="exec-1/6"), tokens=1)
    await fail(journal, attempt(2, key="exec-1/6"), tokens=5)
    assert await journal.account(attempt().key) == confirmed(7)
    assert await journal.account("exec-1/6") == confirmed(1)


async def test_a_closed_number_that_comes_back_adds_a_row(journal: SqlJournal) -> None:
    await journal.begin(attempt())
    await fail(journal, attempt(), tokens=3)
    assert isinstance(await journal.begin(attempt()), Proceed)
    assert await answer(journal, attempt(), tokens=4)
    assert await states(journal) == [(1, "failed"), (1, "answered")]
    assert await journal.account(attempt().key) == confirmed(3, 4)


async def test_spend_that_nobody_announced_is_booked(journal: SqlJournal) -> None:
    assert await answer(journal, attempt())
    await fail(journal, attempt(1, key="exec-1/6"), tokens=2)
    assert [row.state for row in await journal.rows("run")] == ["answered", "failed"]


@pytest.mark.parametrize(
    ("tokens", "cost", "proceeds"),
    [
        (None, None, True),
        (200, None, True),
        (199, None, False),
        (None, Decimal("0.20"), True),
        (None, Decimal("0.19"), False),
        (200, Decimal("0.19"), False),
    ],
    ids=["no limit", "tokens", "tokens short", "cost", "cost short", "both"],
)
async def test_attempts_of_a_key_share_its_reservation(
    journal: SqlJournal, tokens: int | None, cost: Decimal | None, proceeds: bool
) -> None:
    first, second = (
        attempt(number, reservation_tokens=tokens, reservation_cost_usd=cost) for number in (1, 2)
    )
    assert isinstance(await journal.begin(first), Proceed)
    begun = await journal.begin(second)
    expected = (
        Proceed(type="proceed") if proceeds else DoesNotFit(type="does_not_fit", account=LOST)
    )
    assert begun == expected
    assert len(await journal.rows("run")) == (2 if proceeds else 1)


@pytest.mark.parametrize(
    ("limit", "proceeds"),
    [
        ({"reservation_attempts": 2}, True),
        ({"reservation_attempts": 1}, False),
        ({"reservation_output_tokens": 16}, True),
        ({"reservation_output_tokens": 15}, False),
    ],
    ids=["attempts", "attempts used up", "output", "output short"],
)
async def test_attempts_and_their_output_may_be_limited(
    journal: SqlJournal, limit: Changes, proceeds: bool
) -> None:
    changes: Changes = {**limit, "estimate": Usage(input_tokens=100, output_tokens=8)}
    first, second = (attempt(number, **changes) for number in (1, 2))
    assert isinstance(await journal.begin(first), Proceed)
    assert isinstance(await journal.begin(first), Proceed), "the same attempt is no new one"
    assert isinstance(await journal.begin(second), Proceed if proceeds else DoesNotFit)


async def test_a_reply_is_given_again_whatever_the_limit(journal: SqlJournal) -> None:
    only = attempt(1, reservation_attempts=1)
    await journal.begin(only)
    await answer(journal, only)
    again = await journal.begin(attempt(2, reservation_attempts=1))
    assert isinstance(again, Replayed)


async def test_what_was_refused_and_reported_stays(journal: SqlJournal) -> None:
    await journal.begin(attempt(1, reservation_tokens=150))
    refused = await journal.begin(attempt(2, reservation_tokens=150))
    await answer(journal, attempt(), tokens=9999)
    assert isinstance(refused, DoesNotFit)
    assert await journal.account(attempt().key) == refused.account == LOST


async def test_cache_reads_are_paid_in_money_only(journal: SqlJournal) -> None:
    cached = Usage(input_tokens=10, cache_read_tokens=1_000_000)
    begun = await journal.begin(attempt(1, estimate=cached, reservation_tokens=10))
    assert isinstance(begun, Proceed)


async def test_an_unknown_price_is_not_compared_and_not_zero(journal: SqlJournal) -> None:
    unknown = attempt(1, estimate_cost_usd=None, reservation_cost_usd=Decimal("0.01"))
    assert isinstance(await journal.begin(unknown), Proceed)
    account = await journal.reconcile(unknown.key)
    assert account.unconfirmed_cost_usd is None
    assert account.total_cost_usd is None


async def test_reconciling_books_what_is_open_once(journal: SqlJournal) -> None:
    await journal.begin(attempt())
    assert await journal.reconcile(attempt().key) == LOST
    assert await journal.reconcile(attempt().key) == LOST
    assert await journal.reconcile("exec-1/none") == Account()


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
        assert await journal.begin(refused) == Sealed(type="sealed")
    assert isinstance(await journal.begin(sibling), Proceed)
    assert await journal.seal_and_sum("never-ran") == Account()


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
    assert isinstance(account, Account)
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
    assert await journal.account("exec-1/5") == Account()
    assert [(row.state, row.sent) for row in await journal.rows("run")] == [("failed", False)] * 2
    assert await journal.failing_models(["m", "other"], since=START) == {"m"}
    third = attempt(3, reservation_attempts=1)
    assert isinstance(await journal.begin(third), Proceed)
    await answer(journal, third)
    assert await journal.account("exec-1/5") == confirmed(7)
