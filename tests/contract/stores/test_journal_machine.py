"""Any order of begins, ends, seals and reconciliations books what the plain model books."""

import asyncio
import itertools
from collections.abc import Coroutine
from decimal import Decimal
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from perdure.adapters.stores.database import Database
from perdure.adapters.stores.journal import SqlJournal
from perdure.domain.budget.journal import Attempt
from perdure.domain.llm.usage import AttemptTotals, Usage
from tests.contract.stores.journal_model import JournalModel

T = TypeVar("T")

ESTIMATE = 10
RESERVATION = 45
EXECUTIONS = ("first", "second")
KEYS = tuple(f"{execution}/{number}" for execution in EXECUTIONS for number in (1, 2))
_prefixes = itertools.count()

keys = st.sampled_from(KEYS)
numbers = st.integers(1, 4)
tokens = st.integers(0, 20)
replies = st.sampled_from(["yes", "no"])


class JournalMachine(RuleBasedStateMachine):
    """Drives one journal and the model side by side."""

    begun: Bundle[tuple[str, int]] = Bundle("begun")

    def __init__(self, runner: asyncio.Runner, journal: SqlJournal) -> None:
        super().__init__()
        self._runner = runner
        self._journal = journal
        self._prefix = f"machine{next(_prefixes)}-"
        self._model = JournalModel(estimate=ESTIMATE, reservation=RESERVATION)
        self._settled: dict[str, AttemptTotals] = {}
        self.comparisons = 0

    @rule(target=begun, key=keys, number=numbers)
    def begin(self, key: str, number: int):
        result = self._run(self._journal.begin(self._attempt(key, number)))
        assert result.type == self._model.begin(key, number)
        if result.type == "replayed":
            assert result.reply == self._model.replies[key][1]
        return (key, number) if result.type == "proceed" else multiple()

    @rule(attempt=begun, used=tokens, reply=replies)
    def answer(self, attempt: tuple[str, int], used: int, reply: str) -> None:
        first = self._run(
            self._journal.answer(
                self._attempt(*attempt),
                usage=Usage(output_tokens=used),
                cost_usd=Decimal(used),
                reply=reply,
                seconds=1,
            )
        )
        assert first == self._model.answer(*attempt, used, reply)

    @rule(attempt=begun, used=tokens, lost=st.booleans())
    def fail(self, attempt: tuple[str, int], used: int, lost: bool) -> None:
        self._run(
            self._journal.fail(
                self._attempt(*attempt),
                usage=Usage(output_tokens=used),
                cost_usd=Decimal(used),
                seconds=1,
                lost=lost,
            )
        )
        self._model.fail(*attempt, used, lost=lost)

    @rule(attempt=consumes(begun))
    def reconcile(self, attempt: tuple[str, int]) -> None:
        key, _ = attempt
        account = self._run(self._journal.reconcile(self._prefix + key))
        self._model.reconcile(key)
        assert _tokens(account) == self._model.total(key)

    @rule(execution=st.sampled_from(EXECUTIONS))
    def seal(self, execution: str) -> None:
        self._settled[execution] = self._run(self._journal.seal_and_sum(self._prefix + execution))
        self._model.seal(execution)

    @invariant()
    def books_agree(self) -> None:
        accounts = {key: self._run(self._journal.account(self._prefix + key)) for key in KEYS}
        assert {key: _tokens(account) for key, account in accounts.items()} == {
            key: self._model.total(key) for key in KEYS
        }
        self.comparisons += 1
        for execution, settled in self._settled.items():
            now = sum((accounts[key] for key in KEYS if key.startswith(execution)), AttemptTotals())
            assert _tokens(now) == _tokens(settled)
            assert now.total_cost_usd == settled.total_cost_usd

    def _attempt(self, key: str, number: int) -> Attempt:
        return Attempt(
            key=self._prefix + key,
            attempt=number,
            execution=self._prefix + key.partition("/")[0],
            root="root",
            run="run",
            phase="execute",
            role="executor",
            iteration=1,
            model="m",
            request_hash="a" * 64,
            estimate=Usage(output_tokens=ESTIMATE),
            estimate_cost_usd=Decimal(ESTIMATE),
            reservation_tokens=RESERVATION,
        )

    def _run(self, work: Coroutine[None, None, T]) -> T:
        return self._runner.run(work)


def _tokens(account: AttemptTotals) -> tuple[int, int]:
    return account.usage.output_tokens, account.unconfirmed.output_tokens


@pytest.mark.long
def test_any_order_books_what_the_model_books(database_url: str) -> None:
    # Its own loop: the machine's rules are plain functions.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        database = runner.run(Database.open(database_url))
        compared: list[int] = []
        try:

            class OpenedMachine(JournalMachine):
                def __init__(self) -> None:
                    super().__init__(runner, SqlJournal(database))

                def teardown(self) -> None:
                    compared.append(self.comparisons)

            run_state_machine_as_test(
                OpenedMachine,
                settings=settings(
                    max_examples=15,
                    stateful_step_count=15,
                    deadline=None,
                    suppress_health_check=[HealthCheck.too_slow],
                ),
            )
        finally:
            runner.run(database.close())
    assert sum(compared) > len(compared) > 0
