"""Writes spend and runs into the stores of a test, each call under a key of its own."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from attempts import attempt

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.journal import SqlJournal
from perdure.adapters.stores.ledger import SqlLedger
from perdure.adapters.stores.records import SqlRecords
from perdure.domain.llm.usage import Usage
from perdure.domain.run.status import StoredRun

FIRST = datetime(2026, 1, 2, 23, 59, 59, tzinfo=UTC)


class Books:
    """The journal, the runs and the sums over both."""

    def __init__(self, database: Database) -> None:
        self._at = FIRST
        self._calls = 0
        self.journal = SqlJournal(database, now=lambda: self._at)
        self.records = SqlRecords(database)
        self.ledger = SqlLedger(database)

    async def call(
        self,
        cost: str | None,
        *,
        root: str = "a",
        run: str | None = None,
        model: str = "m",
        days: int = 0,
        sent: bool = True,
        confirmed: bool = True,
    ) -> None:
        self._calls += 1
        self._at = FIRST + timedelta(days=days)
        of = attempt(key=f"{root}/{self._calls}", run=run or root).model_copy(
            update={"root": root, "model": model}
        )
        await self.journal.begin(of)
        usage = Usage(input_tokens=10, output_tokens=2, cache_read_tokens=1)
        price = None if cost is None else Decimal(cost)
        if not sent:
            await self.journal.fail(of, usage=Usage(), cost_usd=Decimal(0), seconds=0.0, sent=False)
            return
        await self.journal.answer(
            of, usage=usage, cost_usd=price, reply="r", seconds=0.5, confirmed=confirmed
        )

    async def run(
        self, id: str, *, kind: str = "refine", label: str | None = None, result: str | None = None
    ) -> None:
        row = StoredRun(
            id=id, parent=id.rpartition(".")[0] or None, kind=kind, goal="g", label=label,
            lifecycle="ended", outcome="accepted", started_at=FIRST, ended_at=FIRST, result=result,
        )  # fmt: skip
        await self.records.put_run(row)
