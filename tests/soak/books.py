"""The account of a soak: the provider's ledger, the journal, the results and the histories agree.

What was billed, what we say, and what Temporal recorded are three books that nobody copies from one
another. An entry of `wrong` is a disagreement; a soak without any has passed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from installation import Installation
from invariants import Injected, check, executions
from provider import Line
from temporalio.api.enums.v1 import EventType

from perdure.domain.budget.journal import AttemptRow
from perdure.domain.llm.usage import Usage
from perdure.domain.run.result import RunResult

CONFIRMED = frozenset({"answered", "duplicate"})


@dataclass
class Books:
    """What the books of all runs of a soak add up to."""

    results: list[RunResult] = field(default_factory=list)
    rows: list[AttemptRow] = field(default_factory=list)
    events: int = 0
    longest: int = 0
    executions: int = 0
    failed_tasks: int = 0
    moved: int = 0
    gone: int = 0
    wrong: list[str] = field(default_factory=list)

    async def add_gone(self, site: Installation, run: str, result: RunResult | None) -> None:
        """Look at one that was collected or erased: its figures are what they were.

        Args:
            site: whose run it was.
            run: its id.
            result: as it was read before; None if it was gone before anybody had asked.
        """
        rows = await site.parts.stores.journal.tree(root=run, run=run)
        self.rows += rows
        self.gone += 1
        if result is not None:
            self.results.append(result)
            self._spend(result, rows)

    async def add(
        self, site: Installation, run: str, *, ledger: Sequence[Line] | None, injected: Injected
    ) -> None:
        """Look at one run that has ended, and at those below it.

        Args:
            site: whose run it is.
            run: its id.
            ledger: what was billed for it; None where its calls cannot be told from another run's.
            injected: what was done to it on purpose.
        """
        result = await site.gateway.result(run)
        rows = await site.parts.stores.journal.tree(root=run, run=run)
        self.results.append(result)
        self.rows += rows
        self._spend(result, rows)
        try:
            await self._histories(site, run)
            if result.kind != "delegation":  # its calls are partly those of runs below
                await check(site, run, ledger=ledger, injected=injected)
        except AssertionError as error:
            self.wrong.append(f"{run}: {' '.join(str(error).split())[:600]}")

    def _spend(self, result: RunResult, rows: Sequence[AttemptRow]) -> None:
        booked = sum((row.usage for row in rows), Usage())
        cost = sum((row.cost_usd or Decimal(0) for row in rows), Decimal(0))
        if result.spend.tokens != booked.counted_tokens():
            told = f"{result.spend.tokens} tokens, the journal has {booked.counted_tokens()}"
            self.wrong.append(f"{result.id}: the result says {told}")
        if result.spend.cost_usd != cost:
            told = f"${result.spend.cost_usd}, the journal has ${cost}"
            self.wrong.append(f"{result.id}: the result says {told}")
        open_rows = [row for row in rows if row.state == "started"]
        if open_rows:
            self.wrong.append(f"{result.id}: {len(open_rows)} calls were never closed")

    async def _histories(self, site: Installation, run: str) -> None:
        for history in await executions(site, run):
            self.executions += 1
            self.events += len(history.events)
            self.longest = max(self.longest, len(history.events))
            self.failed_tasks += sum(
                event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
                for event in history.events
            )
            self.moved += sum(
                event.activity_task_scheduled_event_attributes.activity_type.name
                == "open_workspace"
                for event in history.events
            )
        self.moved -= 1  # the first time it is not moved, it is made

    def close(self, ledger: Sequence[Line]) -> "Balance":
        """Compare the provider's ledger with the journal, line by line."""
        lines = {(line.input_tokens, line.output_tokens): line for line in ledger if line.tokens}
        if len(lines) != sum(line.tokens > 0 for line in ledger):
            self.wrong.append("the provider's lines cannot be told apart")
        confirmed = [row for row in self.rows if row.state in CONFIRMED and not row.unconfirmed]
        for row in confirmed:
            if lines.pop((row.usage.input_tokens, row.usage.output_tokens), None) is None:
                self.wrong.append(f"{row.run}: the journal has a call that was never billed: {row}")
        others = [row for row in self.rows if row not in confirmed]
        unheard = sum(line.tokens for line in lines.values())
        held = sum(row.usage.counted_tokens() for row in others)
        if len(lines) > len(others):
            self.wrong.append(f"{len(lines)} calls were billed that no lost attempt answers for")
        if unheard > held:
            self.wrong.append(f"{unheard} tokens were billed unheard, {held} are booked for them")
        return Balance(
            billed=sum(line.tokens for line in ledger),
            requests=len(ledger),
            confirmed=sum(row.usage.counted_tokens() for row in confirmed),
            calls=len(confirmed),
            unheard=unheard,
            held=held,
            lost=Counter(row.state for row in others),
            tokens=sum(one.spend.tokens for one in self.results),
            cost=sum((one.spend.cost_usd or Decimal(0) for one in self.results), Decimal(0)),
            booked=sum((row.cost_usd or Decimal(0) for row in self.rows), Decimal(0)),
        )


@dataclass(frozen=True)
class Balance:
    """The books side by side; tokens unless it says otherwise.

    `unheard` was billed and nobody heard the answer; `held` is what lost attempts are booked at.
    """

    billed: int
    requests: int
    confirmed: int
    calls: int
    unheard: int
    held: int
    lost: Mapping[str, int]
    tokens: int
    cost: Decimal
    booked: Decimal

    def told(self) -> list[tuple[str, str]]:
        """Rows for people."""
        lost = ", ".join(f"{count} {state}" for state, count in sorted(self.lost.items())) or "none"
        return [
            ("provider's ledger", f"{self.billed:,} tokens in {self.requests:,} requests"),
            (
                "  answers heard",
                f"{self.confirmed:,} tokens in {self.calls:,} calls, one line each",
            ),
            ("  billed, not heard", f"{self.unheard:,} tokens, booked at {self.held:,} ({lost})"),
            ("journal", f"{self.confirmed + self.held:,} tokens, ${self.booked}"),
            ("results", f"{self.tokens:,} tokens, ${self.cost}"),
        ]
