"""Collections, erasures, runs and kills in any order: nothing that is needed is lost.

Each call of a collection or an erasure to the stores or the server is a turn, and the machine
decides what happens between two turns. What was written within the hour is not protected here
(`young` is zero), so that only the order of the reads protects a step. Runs ended days ago as soon
as they end, so that a collection with a rule drops them, unless they are at work again.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from postgresql import postgresql_server, postgresql_url

from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.stores.tables import tombstones
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.ports import BlobStore
from perdure.domain.retention.erasure import Tombstone
from perdure.domain.retention.rules import read_rules
from perdure.domain.run.status import RunStatus, StoredRun
from perdure.domain.tools.workspaces import Workspaces
from perdure.gateway.types import Retained
from perdure.interfaces.gateways import RunGateway
from perdure.operations.erase import Eraser
from perdure.operations.gc import collect

__all__ = ["postgresql_server", "postgresql_url"]
T = TypeVar("T")
NOW = timedelta(0)
# A file gets the time of the kernel's last tick, which is some milliseconds ago.
TICK = timedelta(milliseconds=20)
# The last one works for the one before it.
RUNS, CONTENTS = ("a", "b", "c", "c.w1"), ("x", "y", "z")
AGO = timedelta(days=8)
ENDED = datetime(2026, 1, 2, tzinfo=UTC)
_numbers = itertools.count()


class Turns:
    """Stops a task before each of its calls until it is its turn."""

    def __init__(self) -> None:
        self._permit = asyncio.Semaphore(0)
        self._waits = asyncio.Event()
        self.free = False

    async def turn(self) -> None:
        if not self.free:
            self._waits.set()
            await self._permit.acquire()

    async def advance(self, task: asyncio.Task[object]) -> None:
        """Let it make one call, and come to the next."""
        self._waits.clear()
        self._permit.release()
        await self.settled(task)

    async def settled(self, task: asyncio.Task[object]) -> None:
        waits = asyncio.ensure_future(self._waits.wait())
        await asyncio.wait({task, waits}, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()


@dataclass
class SteppedBlobs:
    """Blobs whose calls wait for their turn."""

    inner: BlobStore
    turns: Turns

    async def get(self, address: str) -> bytes:
        await self.turns.turn()
        return await self.inner.get(address)

    async def exists(self, address: str) -> bool:
        return await self.inner.exists(address)

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        await self.turns.turn()
        return await self.inner.delete(addresses, written_before=written_before)

    async def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        await self.turns.turn()
        async for found in self.inner.addresses():
            yield found


@dataclass
class Step:
    """A step under way: what it has stored is named nowhere yet."""

    began: datetime
    put: list[str] = field(default_factory=list)


@dataclass
class Server:
    """What the server keeps: an execution for each run, with the steps that are under way."""

    stores: Stores
    steps: dict[str, Step]
    turns: Turns

    async def retained(self, runs: Collection[str] | None = None) -> AsyncIterator[Retained]:
        await self.turns.turn()
        for run in RUNS if runs is None else sorted({*RUNS} & {*runs}):
            step = self.steps.get(run)
            yield Retained(
                run=run,
                closed_at=None if step is not None else ENDED,
                busy_since=None if step is None else step.began,
                content=frozenset(),
            )

    async def status(self, run: str) -> RunStatus:
        raise NotFound(f"There is no run {run}.")

    async def close_rows(
        self, *, before: datetime | None = None, runs: Collection[str] | None = None
    ) -> int:
        return 0

    async def expire(self, stones: Sequence[Tombstone], *, dry_run: bool) -> None:
        assert not dry_run
        for stone in stones:
            await self._ended(stone.run)
        for stone in sorted(stones, key=lambda stone: stone.run == stone.root):
            await self._ended(stone.run)
            await self.stores.records.delete_run(stone.run, stone=stone)

    async def _ended(self, run: str) -> None:
        await self.turns.turn()
        if run in self.steps:
            raise NotAllowed(f"The run {run} has not ended.")

    async def delete(self, run: str) -> None:
        await self.turns.turn()
        if await self.stores.records.run(run) is None:
            raise NotFound(f"There is no run {run}.")
        await self.stores.records.delete_run(run)


def _root(run: str) -> str:
    return run.partition(".")[0]


def _tree(root: str) -> list[str]:
    return [run for run in RUNS if _root(run) == root]


class NoFolders:
    async def runs(self) -> dict[str, datetime]:
        return {}

    async def release(self, *, run: str) -> None:
        del run

    async def remove_unfinished(self) -> None:
        """There are none."""


class Interleavings(RuleBasedStateMachine):
    """Runs that store and name contents, beside one collection or erasure at a time."""

    def __init__(self, runner: asyncio.Runner, stores: Stores) -> None:
        super().__init__()
        self._runner = runner
        self._stores = stores
        self._steps: dict[str, Step] = {}
        self._task: asyncio.Task[object] | None = None
        self._turns = Turns()
        self._erasing = ""
        self._salt = next(_numbers)
        self._named: dict[str, set[str]] = {}
        for run in RUNS:
            self._run(stores.records.delete_run(run))
            self._run(self._without_stone(run))

    @rule(run=st.sampled_from(RUNS))
    def begin(self, run: str) -> None:
        """A step begins, in a new run or one that is there; not in one that is being erased."""
        if run in self._steps or run in _tree(self._erasing):
            return
        self._run(self._notice_dropped())
        if _root(run) not in {run, *self._named}:
            return  # the run that starts it is not there
        self._steps[run] = Step(began=datetime.now(UTC) - TICK)
        self._run(self._without_stone(run))
        self._run(self._row(run, ended=False))
        self._named.setdefault(run, set())

    @rule(run=st.sampled_from(RUNS))
    def reset(self, run: str) -> None:
        """A run that has ended works again; its row says ended until it does."""
        self._run(self._notice_dropped())
        if run in self._named and run not in self._steps and run not in _tree(self._erasing):
            self._steps[run] = Step(began=datetime.now(UTC) - TICK)

    @rule(run=st.sampled_from(RUNS), content=st.sampled_from(CONTENTS))
    def put(self, run: str, content: str) -> None:
        if (step := self._steps.get(run)) is not None:
            data = f"{self._salt} {content}".encode()
            step.put.append(self._run(self._stores.blobs.put(data)))

    @rule(run=st.sampled_from(RUNS))
    def end(self, run: str) -> None:
        """The step ends: what it stored is named in a row, and then it is no longer under way."""
        step = self._steps.get(run)
        if step is None:
            return
        index = len(self._named[run])
        text = f'{{"refs": "{" ".join(step.put)}"}}'
        self._run(self._stores.records.put_record(run, index + 1, text))
        self._run(self._row(run, ended=True))
        self._named[run] |= set(step.put)
        del self._steps[run]

    @rule(rules=st.sampled_from(["", "7d"]))
    def collect(self, rules: str) -> None:
        if self._task is None:
            self._turns = Turns()
            self._start(self._collected(self._turns, rules))

    @rule(run=st.sampled_from(RUNS[:-1]))
    def erase(self, run: str) -> None:
        self._run(self._notice_dropped())
        busy = any(one in self._steps for one in _tree(run))
        if self._task is None and run in self._named and not busy:
            self._turns, self._erasing = Turns(), run
            for one in _tree(run):
                self._named.pop(one, None)
            self._start(self._erased(run, self._turns))

    @rule(turns=st.integers(1, 4))
    def advance(self, turns: int) -> None:
        for _ in range(turns):
            if self._task is not None:
                self._run(self._turns.advance(self._task))
                self._harvest()

    @rule()
    def kill(self) -> None:
        if self._task is not None:
            self._run(self._killed(self._task))
            self._task = None

    def teardown(self) -> None:
        """Everything comes to its end; then what is needed is there, and nothing else is."""
        if self._task is not None:
            self._run(self._finished(self._task))
            self._task = None
        self._look()
        if self._erasing:
            free = Turns()
            free.free = True
            self._run(self._erased(self._erasing, free))
        free = Turns()
        free.free = True
        # A rule leaves what is at work, and drops the rest.
        self._run(self._collected(free, "7d"))
        self._look()
        self._steps.clear()
        self._run(self._collected(free))
        kept = self._run(self._all())
        self._run(self._notice_dropped())
        assert kept == set().union(*self._named.values())

    def _look(self) -> None:
        self._run(self._notice_dropped())
        needed = set().union(*self._named.values(), *(step.put for step in self._steps.values()))
        assert needed <= self._run(self._all())

    async def _notice_dropped(self) -> None:
        """What a rule dropped needs nothing more; what is there, or at work, has no tombstone."""
        for run in set(self._named) | set(self._steps):
            row = await self._stores.records.run(run)
            stones = await self._stores.erasure().tombstones(_root(run))
            expired = any(stone.run == run and stone.why == "expired" for stone in stones)
            assert (row is None) == expired, f"{run}: {row}, {stones}"
            if row is None:
                assert run not in self._steps
                del self._named[run]

    async def _without_stone(self, run: str) -> None:
        """A run of this name that begins after one was dropped is another one."""
        async with self._stores.database.write() as connection:
            await connection.execute(tombstones.delete().where(tombstones.c.run == run))

    async def _all(self) -> set[str]:
        own = set[str]()
        async for address, _, _ in self._stores.blobs.addresses():
            own.add(address)
        return own

    def _start(self, work: Coroutine[object, object, object]) -> None:
        async def started() -> asyncio.Task[object]:
            task = asyncio.ensure_future(work)
            await self._turns.settled(task)
            return task

        self._task = self._run(started())
        self._harvest()

    def _harvest(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()
            self._task, self._erasing = None, ""
            self._look()

    async def _finished(self, task: "asyncio.Task[object]") -> None:
        while not task.done():
            await self._turns.advance(task)
        task.result()

    async def _killed(self, task: "asyncio.Task[object]") -> None:
        task.cancel()
        await asyncio.wait({task})

    async def _collected(self, turns: Turns, rules: str = "") -> object:
        stepped, server = self._stepped(turns)
        return await collect(
            stepped, server, cast(Workspaces, NoFolders()),
            now=datetime.now(UTC), dry_run=False, young=NOW, rules=read_rules(rules),
        )  # fmt: skip

    async def _erased(self, run: str, turns: Turns) -> object:
        stepped, server = self._stepped(turns)
        try:
            return await Eraser(stepped, server).erase(run, now=datetime.now(UTC), young=NOW)
        except NotFound:
            return None  # it was killed before it wrote anything, and the run was never there

    def _stepped(self, turns: Turns) -> tuple[Stores, RunGateway]:
        blobs = cast(BlobStore, SteppedBlobs(self._stores.blobs, turns))
        server = cast(RunGateway, Server(self._stores, self._steps, turns))
        return replace(self._stores, blobs=blobs), server

    async def _row(self, run: str, *, ended: bool) -> None:
        ago = datetime.now(UTC) - AGO
        await self._stores.records.put_run(
            StoredRun(
                id=run, kind="agent", goal="g", label=None, started_at=ago,
                lifecycle="completed" if ended else "running",
                outcome="accepted" if ended else None, ended_at=ago if ended else None,
                parent=run.rpartition(".")[0] or None,
            )
        )  # fmt: skip

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return self._runner.run(work)


@pytest.mark.long
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_nothing_that_is_needed_is_lost(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = None if database == "sqlite" else str(request.getfixturevalue("postgresql_url"))
    with asyncio.Runner() as runner:
        stores = runner.run(open_stores(tmp_path / "home", url))
        try:
            run_state_machine_as_test(
                # Any callable that makes a machine will do; the signature asks for the class.
                lambda: Interleavings(runner, stores),  # pyright: ignore[reportArgumentType]
                settings=settings(
                    max_examples=40,
                    stateful_step_count=30,
                    deadline=None,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
                ),
            )
        finally:
            runner.run(stores.close())
