"""The journal: one reply counts, everything spent is booked, and reported sums stay."""

from decimal import Decimal

import pytest
from attempts import LOST, Changes, answer, attempt, confirmed, fail, states

from perdure.adapters.stores.journal import SqlJournal
from perdure.domain.budget.journal import DoesNotFit, Proceed, Replayed
from perdure.domain.llm.usage import AttemptTotals, Usage


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


async def test_a_call_that_was_never_sent_hides_no_cost(journal: SqlJournal) -> None:
    """As of a local server without a price that refused the connection."""
    await journal.begin(attempt())
    await journal.fail(attempt(), usage=Usage(), cost_usd=None, seconds=0.1, sent=False)
    assert (await journal.account(attempt().key)).total_cost_usd == 0
    assert await journal.spent([attempt().root]) == {attempt().root: 0.0}


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
async def test_a_failure_is_paid_for(
    journal: SqlJournal, lost: bool, expected: AttemptTotals
) -> None:
    await journal.begin(attempt())
    await fail(journal, attempt(), lost=lost)
    account = await journal.account(attempt().key)
    assert account.model_copy(update={"seconds": expected.seconds}) == expected
    assert account.seconds == 1.5


async def test_it_tells_since_when_a_provider_fails(journal: SqlJournal) -> None:
    """From the end of the first failure; an attempt that was answered is none."""
    assert await journal.failing_for(attempt().key) == 0
    await journal.begin(attempt())
    await fail(journal, attempt())
    await journal.begin(attempt(2))
    await fail(journal, attempt(2))
    assert await journal.failures(attempt().key) == 2
    assert 0 <= await journal.failing_for(attempt().key) < 600
    await journal.begin(attempt(1, key="exec-1/6"))
    await answer(journal, attempt(1, key="exec-1/6"))
    assert await journal.failing_for("exec-1/6") == 0


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


@pytest.mark.parametrize(("counted", "begins"), [(False, Proceed), (True, DoesNotFit)])
async def test_cache_reads_are_paid_in_money_only_unless_they_are_counted(
    journal: SqlJournal, counted: bool, begins: type
) -> None:
    limits: Changes = {"reservation_tokens": 300, "count_cache_reads": counted}
    first, second = (attempt(number, **limits) for number in (1, 2))
    assert isinstance(await journal.begin(first), Proceed)
    read = Usage(input_tokens=10, cache_read_tokens=1_000_000)
    await journal.fail(first, usage=read, cost_usd=Decimal(0), seconds=1.0)
    assert isinstance(await journal.begin(second), begins)


async def test_an_unknown_price_is_not_compared_and_not_zero(journal: SqlJournal) -> None:
    unknown = attempt(1, estimate_cost_usd=None, reservation_cost_usd=Decimal("0.01"))
    assert isinstance(await journal.begin(unknown), Proceed)
    account = await journal.reconcile(unknown.key)
    assert account.unconfirmed_cost_usd is None
    assert account.total_cost_usd is None
