"""A soak: runs of every kind on two hosts, while everything fails that can fail.

Beside the runs go companions: what an installation does otherwise, each in a file of its own.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ground import FAST
from hosts import Hosts, hosts
from invariants import Injected
from other_version import next_version
from postgresql import Postgresql, stoppable
from provider import Line
from server_process import ServerProcess, server_process
from temporalio.service import RPCError

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.run.messages import Resume
from tests.soak.books import Balance, Books
from tests.soak.companions.answering import Answering
from tests.soak.companions.collecting import Collecting
from tests.soak.companions.companion import Around, Companion, told
from tests.soak.companions.erasing import Erasing
from tests.soak.companions.experiment import Experiment
from tests.soak.companions.people import People
from tests.soak.companions.schedules import Schedules
from tests.soak.faults import Strike, losses, timetable
from tests.soak.load import TOKENS, Models, kind_of, number_of, task_of
from tests.soak.pace import Pace
from tests.soak.patience import patiently
from tests.soak.striking import Striking
from tests.soak.watching import Followed, Watch

TELL_S = 10.0
STILL_S = 60.0
PLUGINS = "ledger_tools,short_retention"
# Rolling often, so that faults meet continue-as-new too.
TIMING = FAST.model_copy(update={"roll_events": 120})
Tell = Callable[[str], None]
EXPECTED = {
    "agent": "done",
    "writer": "all there",
    "roles": None,
    "refine": None,
    "delegation": None,
}


@dataclass
class Soak:
    """One soak under way.

    Args:
        made: hosts, provider and gateway.
        around: what companions act on; its `load` is `started`.
        companions: what goes on beside the runs.
        answering: the one of them that goes on until all runs have ended.
        striking: lets the faults happen.
        runs: how many are started, evenly over the soak's time.
        seed: decides the faults and whom they meet.
        tell: is given lines for people.
    """

    made: Hosts
    around: Around
    companions: Sequence[Companion]
    answering: Answering
    striking: Striking
    started: list[str]
    runs: int
    seed: int
    tell: Tell
    strikes: list[Strike] = field(default_factory=list)

    async def go(self) -> tuple[Books, Balance]:
        """Start the runs, strike, wait for all ends, and close the books."""
        seconds, watch = self.around.pace.seconds, self.around.watch
        self.strikes = timetable(self.seed, seconds=seconds)
        clock = asyncio.get_running_loop().time
        began = clock()
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(self._telling(clock, began))
            group.create_task(self.striking.all(self.strikes, seed=self.seed, since=began))
            answering = group.create_task(self.answering.go())
            beside = [
                group.create_task(companion.go())
                for companion in self.companions
                if companion is not self.answering
            ]
            starts = [
                group.create_task(self._run(number, seconds * number / self.runs))
                for number in range(self.runs)
            ]
            last = self.strikes[-1]
            await asyncio.sleep(max(0.0, last.at + last.lasts - (clock() - began)))
            await asyncio.wait(starts)
            for run in self.started:
                # One whose pause was the last that a dying server wrote down is woken.
                await self.striking.say(run, "resume", Resume(request_id="the last"))
            self.around.over.set()
            await asyncio.wait(beside)
            await watch.all_ended()
            telling.cancel()
            answering.cancel()
        self.tell(
            f"all {len(watch.runs)} runs have ended after {clock() - began:.0f} s; the books:"
        )
        return await self._books()

    async def _run(self, number: int, at: float) -> None:
        await asyncio.sleep(at)
        run, task, site = f"soak-{number}", task_of(number), self.made.ground.site
        # Who starts a run while the store or the server is away asks again; the id makes it one.
        await patiently(lambda: site.start(task, run_id=run))
        self.started.append(run)
        self.around.watch.follow(run, number=number)

    async def _telling(self, clock: Callable[[], float], began: float) -> None:
        last, since = 0, clock()
        while True:
            await asyncio.sleep(TELL_S)
            calls = len(self.made.ground.provider.bodies)
            followed = self.around.watch.runs.values()
            ended = sum(one.ended.is_set() for one in followed)
            told = (
                f"{len(self.started)} of {self.runs} started, {len(followed) - len(self.started)}"
            )
            self.tell(f"{clock() - began:5.0f} s  {told} more, {ended} ended, {calls} calls")
            if ended != last:
                last, since = ended, clock()
            elif clock() - since > STILL_S:
                since = clock()
                await self._tell_what_waits()

    async def _tell_what_waits(self) -> None:
        """Nothing has ended for long: say what the open runs wait for."""
        for run in [one.run for one in self.around.watch.runs.values() if not one.ended.is_set()]:
            with suppress(PerdureError, RPCError):
                status = await self.made.ground.site.status(run)
                now = status.step.what if status.step else status.phase
                gates = ", ".join(gate.prompt[:200] for gate in status.gates)
                self.tell(f"         {run}: {now} {status.dispatch} {status.outcome} {gates}")

    async def _books(self) -> tuple[Books, Balance]:
        books, ground = Books(), self.made.ground
        ledgers: dict[int, list[Line]] = {}
        ledger = ground.provider.lines()
        for line, body in zip(ledger, ground.provider.bodies, strict=True):
            ledgers.setdefault(number_of(body), []).append(line)
        for followed in self.around.watch.runs.values():
            await self._book(books, followed, ledgers)
        balance = books.close(ledger)
        for companion in self.companions:
            await companion.check(books)
        return books, balance

    async def _book(self, books: Books, followed: Followed, ledgers: dict[int, list[Line]]) -> None:
        site, run = self.made.ground.site, followed.run
        lost = losses(self.strikes)
        self._as_expected(books, followed)
        if await site.parts.stores.records.run(run) is None:
            await books.add_gone(site, run, followed.result)
            return
        injected = Injected(kills=lost, failed_tasks=2 * lost, ahead=True)
        own = None if followed.number is None else ledgers.get(followed.number, [])
        await books.add(site, run, ledger=own, injected=injected)

    def _as_expected(self, books: Books, followed: Followed) -> None:
        result, stopped = followed.result, followed.run in self.striking.stopped
        if result is None:
            return
        if result.outcome not in {*followed.ends, *(["stopped"] if stopped else [])}:
            books.wrong.append(f"{result.id} ended {result.outcome}: {result.explanation}")
        elif followed.run in self.started and result.outcome == "accepted":
            wanted = EXPECTED[kind_of(int(followed.run.removeprefix("soak-")))]
            if wanted not in {None, result.output}:
                books.wrong.append(f"{result.id} gave {result.output!r}")
        if result.spend.tokens > TOKENS:
            books.wrong.append(f"{result.id} spent more than its budget")


@asynccontextmanager
async def soaking(
    folder: Path, *, runs: int, seconds: float, seed: int, tell: Tell
) -> AsyncGenerator[Soak]:
    """Two hosts with clocks that are wrong, one of them a version ahead, on one store."""
    models, pace = Models(seed), Pace(seconds)
    ahead = next_version(folder / "ahead")
    with stoppable() as store:
        async with (
            server_process(folder) as server,
            hosts(
                folder / "site",
                server.address,
                store.url,
                minutes=pace.clocks,
                trees=(None, ahead),
                environment={
                    "PERDURE_PLUGINS": PLUGINS,
                    "KEPT_S": str(pace.kept.total_seconds()),
                    "YOUNG_S": str(pace.young.total_seconds()),
                },
                timing=TIMING,
            ) as made,
        ):
            made.ground.provider.choose = models.play
            yield _soak(made, server, store, models, pace, runs=runs, seed=seed, tell=tell)


def _soak(
    made: Hosts,
    server: ServerProcess,
    store: Postgresql,
    models: Models,
    pace: Pace,
    *,
    runs: int,
    seed: int,
    tell: Tell,
) -> Soak:
    started: list[str] = []
    striking = Striking(made, server=server, store=store, models=models, runs=started, tell=tell)
    site = made.ground.site
    around = Around(
        site, models, Watch(site), pace, seed, load=started, kill_workers=striking.kill_workers
    )
    answering = Answering(around)
    companions = [
        answering,
        Schedules(around),
        Experiment(around),
        People(around),
        Erasing(around, store.url),
        Collecting(around),
    ]
    return Soak(made, around, companions, answering, striking, started, runs, seed, tell)


def report(soak: Soak, books: Books, balance: Balance) -> list[str]:
    """What a soak came to, in lines for people."""
    kinds = Counter(f"{one.kind} {one.outcome}" for one in books.results)
    faults = Counter(strike.fault for strike in soak.strikes)
    rows = [
        ("runs", ", ".join(f"{count} {name}" for name, count in sorted(kinds.items()))),
        ("  dropped by now", f"{books.gone}, with the spend that they had"),
        *balance.told(),
        (
            "histories",
            f"{books.events:,} events in {books.executions:,} executions, the longest "
            f"{books.longest:,}; {books.failed_tasks} failed tasks",
        ),
        ("folders made anew", f"{books.moved}"),
        ("faults", ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))),
    ]
    lines = [f"{name:<20} {told}" for name, told in rows]
    lines += [line for companion in soak.companions for line in told(companion)]
    if not books.wrong:
        return [*lines, "", "Ledger, journal, results and histories agree."]
    return [*lines, "", f"{len(books.wrong)} disagreements:", *books.wrong]
