"""Lets happen what the timetable of a soak says."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

from hosts import Host, Hosts, Link
from postgresql import Postgresql
from server_process import ServerProcess
from temporalio.service import RPCError

from perdure.domain.run.messages import AddInput, AnyMessage, Pause, Resume, Stop
from tests.soak.faults import Strike
from tests.soak.load import Models

FLOODED = 20
MOST_STARTS = 60
AGAIN_S = 2.0
Tell = Callable[[str], None]


class Striking:
    """Strikes hosts, services and runs.

    Args:
        made: the hosts.
        server: of Temporal.
        store: PostgreSQL.
        models: what the provider plays.
        runs: the ids of those that are flooded and stopped, as they are started.
        tell: is given lines for people.
    """

    def __init__(
        self,
        made: Hosts,
        *,
        server: ServerProcess,
        store: Postgresql,
        models: Models,
        runs: Sequence[str],
        tell: Tell,
    ) -> None:
        self._made = made
        self._server = server
        self._store = store
        self._models = models
        self._runs = runs
        self._tell = tell
        # One fault of a kind at a time; different ones meet.
        self._busy: dict[str, asyncio.Lock] = {}
        self.stopped: set[str] = set()

    async def all(self, strikes: Sequence[Strike], *, seed: int, since: float) -> None:
        """Strike at the times of the timetable, counted from `since` on the loop's clock."""
        chance = random.Random(f"{seed} strikes")
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as group:
            for strike in strikes:
                await asyncio.sleep(max(0.0, strike.at - (clock() - since)))
                self._tell(f"{clock() - since:5.0f} s  {strike.fault}")
                own = random.Random(chance.random())
                group.create_task(self._one_at_a_time(strike, own))

    async def kill_workers(self) -> None:
        """Kill the workers of all hosts at once, and start them again."""
        async with asyncio.TaskGroup() as group:
            for number, host in enumerate(self._made.hosts, start=1):
                lock = self._lock(f"kill the worker of host {number}")
                group.create_task(self._kill(host, 0.0, lock))

    async def say(self, run: str, verb: str, message: AnyMessage) -> None:
        """Send a verb as a signal; one that has ended hears nothing."""
        # A server that is away takes nothing; a resume that was lost with it is said once more at
        # the end.
        with suppress(RPCError):
            await self._made.ground.site.handle(run).signal(verb, message)

    def _lock(self, fault: str) -> asyncio.Lock:
        return self._busy.setdefault(fault, asyncio.Lock())

    async def _one_at_a_time(self, strike: Strike, chance: random.Random) -> None:
        lock = self._lock(strike.fault)
        if strike.fault.startswith("kill the worker"):
            await self._kill(self._host(strike), strike.lasts, lock)
            return
        async with lock:
            await self._strike(strike, chance)

    async def _strike(self, strike: Strike, chance: random.Random) -> None:
        match strike.fault:
            case "cut host 1 from the store" | "cut host 2 from the store":
                await _cut(self._host(strike).to_store, strike.lasts)
            case "cut host 1 from the server" | "cut host 2 from the server":
                await _cut(self._host(strike).to_server, strike.lasts)
            case "flood with signals" | "stop a run":
                await self._steer(strike, chance)
            case _:
                await self._take_away(strike)

    async def _take_away(self, strike: Strike) -> None:
        """Take away for a while what all hosts share."""
        match strike.fault:
            case "kill the server":
                await self._server.kill()
                await asyncio.sleep(strike.lasts)
                await self._server.start()
            case "stop the store":
                await asyncio.to_thread(self._store.stop)
                await asyncio.sleep(strike.lasts)
                await asyncio.to_thread(self._store.start)
            case _:
                self._models.refusing = True
                await asyncio.sleep(strike.lasts)
                self._models.refusing = False

    async def _steer(self, strike: Strike, chance: random.Random) -> None:
        """Say things to runs: a flood to some, or the end to the newest."""
        if strike.fault == "flood with signals":
            for run in chance.sample(self._runs, min(FLOODED, len(self._runs))):
                await self._flood(run, str(chance.random()))
        elif self._runs:
            run = self._runs[-1]
            self.stopped.add(run)
            await self.say(run, "stop", Stop(request_id=f"stop {run}"))

    def _host(self, strike: Strike) -> Host:
        return self._made.hosts[0 if "host 1" in strike.fault else 1]

    async def _kill(self, host: Host, dead_s: float, lock: asyncio.Lock) -> None:
        async with lock:
            await host.worker.kill()
            await asyncio.sleep(dead_s)
            await _started_again(host)

    async def _flood(self, run: str, name: str) -> None:
        """A pause, an input and a resume, each sent twice."""
        said: dict[str, AnyMessage] = {
            "pause": Pause(request_id=f"p{name}"),
            "add_input": AddInput(text="Go on as you are.", request_id=f"i{name}"),
            "resume": Resume(request_id=f"r{name}"),
        }
        for verb, message in said.items():
            for _ in range(2):
                await self.say(run, verb, message)


async def _started_again(host: Host) -> None:
    """Start its worker as a supervisor does: one that ends as a service is away, once more."""
    for _ in range(MOST_STARTS):
        with suppress(AssertionError):  # it waits for what is away, and polls later
            await host.worker.start(may_die=True)
        if host.worker.code is None:
            return
        await asyncio.sleep(AGAIN_S)
    raise AssertionError(f"the worker of {host.home} ended {MOST_STARTS} times as it started")


async def _cut(link: Link, seconds: float) -> None:
    link.cut()
    await asyncio.sleep(seconds)
    link.mend()
