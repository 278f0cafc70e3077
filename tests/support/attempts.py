"""Attempts at model calls as tests write them into a journal, and what they add up to."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import TypedDict, Unpack

from perdure.adapters.stores.journal import SqlJournal
from perdure.domain.budget.journal import Attempt
from perdure.domain.llm.usage import AttemptTotals, Usage

START = datetime(2026, 1, 2, tzinfo=UTC)
ESTIMATE = Usage(input_tokens=100)
ESTIMATE_COST = Decimal("0.10")


class Changes(TypedDict, total=False):
    key: str
    execution: str
    run: str
    root: str
    phase: str
    iteration: int
    request_hash: str
    estimate: Usage
    estimate_cost_usd: Decimal | None
    reservation_tokens: int | None
    reservation_cost_usd: Decimal | None
    reservation_attempts: int | None
    reservation_output_tokens: int | None
    count_cache_reads: bool


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


def confirmed(*tokens: int) -> AttemptTotals:
    return AttemptTotals(
        attempts=len(tokens),
        usage=Usage(output_tokens=sum(tokens)),
        cost_usd=Decimal(sum(tokens)) / 1000,
        seconds=1.5 * len(tokens),
    )


LOST = AttemptTotals(
    attempts=1, unconfirmed=ESTIMATE, unconfirmed_cost_usd=ESTIMATE_COST, lost_attempts=1
)


async def states(journal: SqlJournal, run: str = "run") -> list[tuple[int, str]]:
    return [(row.attempt, row.state) for row in await journal.rows(run)]
