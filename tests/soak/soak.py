"""A soak: runs of every kind on two hosts, while everything fails that can fail."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from ground import FAST
from hosts import Host, Hosts, Link, hosts
from invariants import Injected
from other_version import next_version
from postgresql import Postgresql, stoppable
from provider import Line
from server_process import ServerProcess, server_process
from temporalio.service import RPCError

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.run.messages import AddInput, AnyMessage, Pause, Resume, Stop
from tests.soak.books import Balance, Books
from tests.soak.faults import Strike, losses, timetable
from tests.soak.load import TOKENS, Models, kind_of, number_of, task_of

FLOODED = 20
TELL_S = 10.0
STILL_S = 60.0
PATIENCE_S = 900.0
CLOCKS = (10.0, -10.0)
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
        server: of Temporal.
        store: PostgreSQL.
        models: what the provider plays.
        runs: how many are started, evenly over `seconds`.
        seconds: how long runs are started.
        seed: decides the faults and whom they meet.
        tell: is given lines for people.
    """

    made: Hosts
    server: ServerProcess
    store: Postgresql
    models: Models
    runs: int
    seconds: float
    seed: int
    tell: Tell
    started: list[str] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    ended: int = 0

    async def go(self) -> tuple[Books, Balance]:
        """Start the runs, strike, wait for all ends, and close the books."""
        strikes = timetable(self.seed, seconds=self.seconds)
        clock = asyncio.get_running_loop().time
        began = clock()
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(self._telling(clock, began))
            group.create_task(self._striking(strikes, clock, began))
            results = [
                group.create_task(self._run(number, self.seconds * number / self.runs))
                for number in range(self.runs)
            ]
            await asyncio.sleep(max(0.0, strikes[-1].at + strikes[-1].lasts - (clock() - began)))
            for run in self.started:
                # One whose pause was the last that a dying server wrote down is woken.
                await self._say(run, "resume", Resume(request_id="the last"))
            await asyncio.wait(results)
            telling.cancel()
        self.tell(f"all {self.ended} runs have ended after {clock() - began:.0f} s; the books:")
        return await self._books(strikes)

    async def _run(self, number: int, at: float) -> None:
        await asyncio.sleep(at)
        run = f"soak-{number}"
        site, task = self.made.ground.site, task_of(number)
        # Who starts a run while the store or the server is away asks again; the id makes it one.
        await _patiently(lambda: self._start(run, task))
        self.started.append(run)
        await _patiently(lambda: site.gateway.result(run))
        self.ended += 1

    async def _start(self, run: str, task: dict[str, object]) -> None:
        await self.made.ground.site.start(task, run_id=run)

    async def _telling(self, clock: Callable[[], float], began: float) -> None:
        last, since = 0, clock()
        while True:
            await asyncio.sleep(TELL_S)
            calls = len(self.made.ground.provider.bodies)
            told = f"{len(self.started)} of {self.runs} started, {self.ended} ended, {calls} calls"
            self.tell(f"{clock() - began:5.0f} s  {told}")
            if self.ended != last:
                last, since = self.ended, clock()
            elif clock() - since > STILL_S:
                since = clock()
                await self._tell_what_waits()

    async def _tell_what_waits(self) -> None:
        """Nothing has ended for long: say what the open runs wait for."""
        for run in self.started:
            with suppress(PerdureError, RPCError):
                status = await self.made.ground.site.status(run)
                if status.outcome is None:
                    now = status.step.what if status.step else status.phase
                    gates = ", ".join(gate.prompt[:200] for gate in status.gates)
                    self.tell(f"         {run}: {now} {status.dispatch} {gates}")

    async def _striking(
        self, strikes: Sequence[Strike], clock: Callable[[], float], began: float
    ) -> None:
        chance = random.Random(f"{self.seed} strikes")
        busy: dict[str, asyncio.Lock] = {}
        async with asyncio.TaskGroup() as group:
            for strike in strikes:
                await asyncio.sleep(max(0.0, strike.at - (clock() - began)))
                self.tell(f"{clock() - began:5.0f} s  {strike.fault}")
                # One fault of a kind at a time; different ones meet.
                lock = busy.setdefault(strike.fault, asyncio.Lock())
                group.create_task(self._one_at_a_time(lock, strike, random.Random(chance.random())))

    async def _one_at_a_time(
        self, lock: asyncio.Lock, strike: Strike, chance: random.Random
    ) -> None:
        async with lock:
            await self._strike(strike, chance)

    async def _strike(self, strike: Strike, chance: random.Random) -> None:
        match strike.fault:
            case "kill the worker of host 1" | "kill the worker of host 2":
                await self._kill(self._host(strike), strike.lasts)
            case "cut host 1 from the store" | "cut host 2 from the store":
                await _cut(self._host(strike).to_store, strike.lasts)
            case "cut host 1 from the server" | "cut host 2 from the server":
                await _cut(self._host(strike).to_server, strike.lasts)
            case "flood with signals" | "stop a run":
                await self._steer(strike, chance)
            case "kill the server" | "stop the store" | "refuse most model calls":
                await self._take_away(strike)

    async def _take_away(self, strike: Strike) -> None:
        """Take away for a while what all hosts share."""
        match strike.fault:
            case "kill the server":
                await self.server.kill()
                await asyncio.sleep(strike.lasts)
                await self.server.start()
            case "stop the store":
                await asyncio.to_thread(self.store.stop)
                await asyncio.sleep(strike.lasts)
                await asyncio.to_thread(self.store.start)
            case _:
                self.models.refusing = True
                await asyncio.sleep(strike.lasts)
                self.models.refusing = False

    async def _steer(self, strike: Strike, chance: random.Random) -> None:
        """Say things to runs: a flood to some, or the end to the newest."""
        if strike.fault == "flood with signals":
            for run in chance.sample(self.started, min(FLOODED, len(self.started))):
                await self._flood(run, str(chance.random()))
        elif self.started:
            run = self.started[-1]
            self.stopped.add(run)
            await self._say(run, "stop", Stop(request_id=f"stop {run}"))

    def _host(self, strike: Strike) -> Host:
        return self.made.hosts[0 if "host 1" in strike.fault else 1]

    @staticmethod
    async def _kill(host: Host, dead_s: float) -> None:
        await host.worker.kill()
        await asyncio.sleep(dead_s)
        # One that starts while the store or the server is away waits for it.
        with suppress(AssertionError, TimeoutError):
            await host.worker.start(may_die=True)

    async def _flood(self, run: str, name: str) -> None:
        """A pause, an input and a resume, each sent twice."""
        said: dict[str, AnyMessage] = {
            "pause": Pause(request_id=f"p{name}"),
            "add_input": AddInput(text="Go on as you are.", request_id=f"i{name}"),
            "resume": Resume(request_id=f"r{name}"),
        }
        for verb, message in said.items():
            for _ in range(2):
                await self._say(run, verb, message)

    async def _say(self, run: str, verb: str, message: AnyMessage) -> None:
        # One that has ended hears nothing, and a server that is away takes nothing; a resume that
        # was lost with it is said once more at the end.
        with suppress(RPCError):
            await self.made.ground.site.handle(run).signal(verb, message)

    async def _books(self, strikes: Sequence[Strike]) -> tuple[Books, Balance]:
        books, lost = Books(), losses(strikes)
        ground = self.made.ground
        ledgers: dict[int, list[Line]] = {}
        ledger = ground.provider.lines()
        for line, body in zip(ledger, ground.provider.bodies, strict=True):
            ledgers.setdefault(number_of(body), []).append(line)
        for number in range(self.runs):
            run = f"soak-{number}"
            injected = Injected(kills=lost, failed_tasks=2 * lost, ahead=True)
            await books.add(ground.site, run, ledger=ledgers.get(number, []), injected=injected)
            self._as_expected(books, number)
        return books, books.close(ledger)

    def _as_expected(self, books: Books, number: int) -> None:
        result = books.results[-1]
        if result.id in self.stopped:
            allowed = {"stopped", "accepted"}
        else:
            allowed = {"accepted"}
        wanted = EXPECTED[kind_of(number)]
        if result.outcome not in allowed:
            books.wrong.append(f"{result.id} ended {result.outcome}: {result.explanation}")
        elif result.outcome == "accepted" and wanted not in {None, result.output}:
            books.wrong.append(f"{result.id} gave {result.output!r}")
        if result.spend.tokens > TOKENS:
            books.wrong.append(f"{result.id} spent more than its budget")


async def _cut(link: Link, seconds: float) -> None:
    link.cut()
    await asyncio.sleep(seconds)
    link.mend()


async def _patiently(act: Callable[[], object]) -> None:
    """Do it until the services are there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await act()  # type: ignore[misc]
            except (PerdureError, RPCError):
                await asyncio.sleep(1.0)
            else:
                return


@asynccontextmanager
async def soaking(
    folder: Path, *, runs: int, seconds: float, seed: int, tell: Tell
) -> AsyncGenerator[Soak]:
    """Two hosts with clocks that are wrong, one of them a version ahead, on one store."""
    models = Models(seed)
    ahead = next_version(folder / "ahead")
    with stoppable() as store:
        async with (
            server_process(folder) as server,
            hosts(
                folder / "site",
                server.address,
                store.url,
                minutes=CLOCKS,
                trees=(None, ahead),
                timing=TIMING,
            ) as made,
        ):
            made.ground.provider.choose = models.play
            yield Soak(made, server, store, models, runs, seconds, seed, tell)


def report(books: Books, balance: Balance) -> list[str]:
    """What a soak came to, in lines for people."""
    kinds = Counter(f"{one.kind} {one.outcome}" for one in books.results)
    rows = [
        ("runs", ", ".join(f"{count} {name}" for name, count in sorted(kinds.items()))),
        *balance.told(),
        (
            "histories",
            f"{books.events:,} events in {books.executions:,} executions, the longest "
            f"{books.longest:,}; {books.failed_tasks} failed tasks",
        ),
        ("folders made anew", f"{books.moved}"),
    ]
    lines = [f"{name:<20} {told}" for name, told in rows]
    if not books.wrong:
        return [*lines, "", "Ledger, journal, results and histories agree."]
    return [*lines, "", f"{len(books.wrong)} disagreements:", *books.wrong]
