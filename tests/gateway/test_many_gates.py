"""Very many open questions: none is called unknown, and listing them again costs little."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

from perdure.domain.foundation.errors import NoReadyWorker
from perdure.domain.ports import RecordStore
from perdure.domain.run.gates import Gate
from perdure.domain.run.status import RunWords
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.open_gates import AT_ONCE, GateReader
from perdure.gateway.temporal_gateway import TemporalGateway

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MANY = 500


class Busy:
    """A worker that answers in time only as long as few ask at once."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away
        self.execution = "first"
        self.asked: list[str] = []
        self.open = 0
        self.time = 0.0

    async def page(self, *_: object, **__: object) -> tuple[list[ExecutionInfo], None]:
        looks = [
            ExecutionInfo(
                id=f"run-{n}", execution=self.execution, kind="agent", ending=None,
                history_length=3, started_at=NOW, closed_at=None, facts={}, memo={},
            )
            for n in range(MANY)
        ]  # fmt: skip
        return looks, None

    async def query(self, run: str, *_: object) -> Sequence[Gate]:
        self.asked.append(run)
        self.open += 1
        busy = self.open > AT_ONCE
        await asyncio.sleep(0)
        self.open -= 1
        if busy or self.away:
            raise NoReadyWorker("No worker answers.")
        return (Gate(id="g1", kind="question", prompt="Which?", choices=(), opened_at=NOW),)

    async def present(self, _queue: str) -> bool:
        return not self.away

    def reader(self) -> GateReader:
        async def installation() -> str:
            return "i"

        async def words(_ids: Sequence[str]) -> dict[str, RunWords]:
            return {}

        return GateReader(
            server=cast(TemporalGateway, self),
            records=cast(RecordStore, SimpleNamespace(installation=installation, words=words)),
            present=self.present,
            clock=lambda: self.time,
        )


async def test_a_worker_with_very_many_questions_is_not_called_absent() -> None:
    found = await Busy().reader().read()
    assert (len(found.gates), found.unread) == (MANY, ())


async def test_without_a_worker_few_are_asked_and_all_are_named() -> None:
    server = Busy(away=True)
    found = await server.reader().read()
    assert (len(found.unread), found.gates) == (MANY, ())
    assert len(server.asked) < 2 * AT_ONCE


async def test_who_lists_again_and_again_asks_each_run_once_in_a_while() -> None:
    server = Busy()
    reader = server.reader()
    await asyncio.gather(reader.read(), reader.read(), reader.read())
    server.time = 2.0
    await reader.read()
    assert len(server.asked) == MANY
    server.time = 6.0  # 500 runs: answers are kept 5 s
    assert len((await reader.read()).gates) == MANY
    assert len(server.asked) == 2 * MANY


async def test_a_run_that_was_sent_something_or_began_anew_is_asked_again() -> None:
    server = Busy()
    reader = server.reader()
    await reader.read()
    reader.forget("run-7")
    await reader.read()
    assert server.asked[MANY:] == ["run-7"]
    server.execution = "reset"
    await reader.read()
    assert len(server.asked) == 2 * MANY + 1


async def test_a_caller_that_leaves_takes_no_answer_from_others() -> None:
    reader = Busy().reader()
    leaving = asyncio.create_task(reader.read())
    staying = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    leaving.cancel()
    assert len((await staying).gates) == MANY
