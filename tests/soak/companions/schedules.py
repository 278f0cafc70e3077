"""Schedules that start runs all the time: each due start is one run, or its skip is told."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from provider import MODEL
from short_retention import LABEL

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.llm.usage import Usage
from perdure.domain.schedules.plan import MonthlyBudget, Overlap, SchedulePlan, Times
from perdure.domain.schedules.status import ScheduleStatus
from perdure.domain.specs import RUN_SPEC
from perdure.gateway.schedules import Schedules as Gateway
from tests.soak.books import Books
from tests.soak.companions.companion import Around
from tests.soak.patience import PATIENCE_S, patiently

FIRST_NUMBER = 60_000
LOOK_S = 3.0
# A server that was away makes up for starts when it is back, up to a moment after that.
UNSURE_S = 20.0
MONTH = MonthlyBudget(tokens=1_000_000_000)


@dataclass
class Clocked:
    """One schedule: every so many seconds, and between which moments it was active.

    Attributes:
        every: seconds between two starts.
        active: from when to when starts were due, in seconds since 1970.
        last: how it stood when it had come to rest.
    """

    name: str
    number: int
    every: int
    overlap: Overlap
    active: list[tuple[float, float]] = field(default_factory=list)
    last: ScheduleStatus | None = None
    runs: set[str] = field(default_factory=set)

    def plan(self) -> SchedulePlan:
        """Its plan: an agent of a few calls, whose runs are not kept."""
        task = RUN_SPEC.validate_python(
            {
                "kind": "agent",
                "goal": f"Task {self.number} of a soak.",
                "models": {"executor": MODEL},
                "learn": False,
                "budget": {"tokens": 400_000},
                "metadata": {"label": LABEL},
            }
        )
        return SchedulePlan(
            name=self.name,
            kind="agent",
            task=task.model_dump(mode="json", by_alias=True),
            times=Times(cron=(f"*/{self.every} * * * * * *",)),
            overlap=self.overlap,
            month=MONTH,
        )

    def due(self, *, unsure_s: float) -> set[str]:
        """The runs of its starts that were due, without those closer to a change than that."""
        found: set[str] = set()
        for begun, ended in self.active:
            first = math.floor((begun + unsure_s) / self.every) + 1
            last = math.floor((ended - unsure_s) / self.every)
            found |= {self._run(number * self.every) for number in range(first, last + 1)}
        return found

    def _run(self, at: float) -> str:
        return f"{self.name}-{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


class Schedules:
    """Four schedules; one is paused and resumed in the middle, and one is deleted."""

    name = "schedules"

    def __init__(self, around: Around) -> None:
        self._around = around
        self.did: Counter[str] = Counter()
        self.checked: list[str] = []
        overlaps: list[tuple[int, Overlap]] = [
            (6, "skip"),
            (20, "allow_all"),
            (12, "buffer_one"),
            (12, "cancel_other"),
        ]
        self._all = [
            Clocked(f"soak-{overlap.replace('_', '-')}", FIRST_NUMBER + 5 * at, every, overlap)
            for at, (every, overlap) in enumerate(overlaps)
        ]

    @property
    def _gateway(self) -> Gateway:
        site = self._around.site
        return site.gateway.schedules(site.parts.stores.schedules())

    async def go(self) -> None:
        """Create them, follow what they start, and delete them in the end."""
        for one in self._all:
            begun, plan = time.time(), one.plan()
            await patiently(lambda plan=plan: self._gateway.create(plan))
            one.active.append((begun, math.inf))
            self.did["created"] += 1
        following = asyncio.create_task(self._following())
        try:
            await self._change()
            await self._around.over.wait()
            for one in self._all:
                if one.active[-1][1] == math.inf:
                    await self._hold(one)
            async with asyncio.timeout(PATIENCE_S):
                while not all([await self._rests(one) for one in self._all]):
                    await asyncio.sleep(LOOK_S)
        finally:
            following.cancel()

    async def check(self, books: Books) -> None:
        """Each due start is one run or was skipped, and the month's books are the journal's."""
        for one in self._all:
            assert one.last is not None
            await self._starts(one, one.last, books)
            await self._month(one, books)

    async def _change(self) -> None:
        """Pause and resume one, delete another, at moments that chance gives."""
        chance = self._around.chance(self.name)
        third = self._around.pace.seconds / 3
        if not await self._around.rest(chance.uniform(0.8, 1.2) * third):
            return
        paused = self._all[1]
        await self._hold(paused)
        going_on = await self._around.rest(chance.uniform(0.3, 0.6) * third)
        begun = time.time()
        await self._until(lambda: self._gateway.resume(paused.name))
        paused.active.append((begun, math.inf))
        self.did["resumed"] += 1
        if going_on and await self._around.rest(chance.uniform(0.3, 0.6) * third):
            await self._delete(self._all[3])

    async def _hold(self, one: Clocked) -> None:
        await self._until(lambda: self._gateway.pause(one.name))
        one.active[-1] = (one.active[-1][0], time.time())
        self.did["paused"] += 1

    async def _delete(self, one: Clocked) -> None:
        """Delete it while it is active: its open run goes on, and nothing more is started."""
        one.last = await patiently(lambda: self._gateway.status(one.name))
        await self._until(lambda: self._gateway.delete(one.name))
        one.active[-1] = (one.active[-1][0], time.time())
        self.did["deleted"] += 1

    async def _until(self, act: Callable[[], Awaitable[object]]) -> None:
        await patiently(act)

    async def _following(self) -> None:
        while True:
            for one in self._all:
                with suppress(PerdureError):
                    await self._look(one)
            await asyncio.sleep(LOOK_S)

    async def _look(self, one: Clocked) -> None:
        """Follow the runs that it started since."""
        if one.last is None:
            status = await self._gateway.status(one.name)
            found = {start.run for start in status.starts} | set(status.running)
        else:
            stores = self._around.site.parts.stores
            found = {start.run for start in await stores.schedules().starts(one.name)}
        ends = {"accepted", "stopped"} if one.overlap == "cancel_other" else {"accepted"}
        for run in found - one.runs:
            one.runs.add(run)
            self._around.watch.follow(run, ends=ends)
            self.did["runs"] += 1

    async def _rests(self, one: Clocked) -> bool:
        """Whether a schedule that starts nothing new has no run open and none waiting."""
        if one.last is not None:
            return True
        status = await patiently(lambda: self._gateway.status(one.name))
        await self._look(one)
        if status.running or any(
            not self._around.watch.runs[run].ended.is_set() for run in one.runs
        ):
            return False
        one.last = status
        return True

    async def _starts(self, one: Clocked, status: ScheduleStatus, books: Books) -> None:
        runs = await self._runs(one)
        sure, at_most = one.due(unsure_s=UNSURE_S), one.due(unsure_s=-UNSURE_S)
        if astray := runs - at_most:
            books.wrong.append(f"{one.name} started what was not due: {sorted(astray)[:5]}")
        if unfollowed := runs - one.runs:
            books.wrong.append(f"{one.name} has runs that its status never told: {unfollowed}")
        untold = len(sure - runs) - status.skipped - status.missed
        # Of starts that come while a run is being stopped, the server makes the last.
        replaced = max(0, untold) if one.overlap == "cancel_other" else 0
        if untold > replaced:
            books.wrong.append(
                f"{one.name}: {untold} due starts are neither a run nor told as skipped: "
                f"{len(sure)} were due, {len(runs)} are runs, {status.skipped} skipped, "
                f"{status.missed} missed: {sorted(sure - runs)[:5]}"
            )
        if one.overlap == "allow_all" and (lost := sure - runs):
            books.wrong.append(f"{one.name} allows all and left out {sorted(lost)[:5]}")
        if one.overlap != "cancel_other" and status.started != len(runs):
            books.wrong.append(f"{one.name} says {status.started} starts, there are {len(runs)}")
        if refused := [start for start in status.starts if start.refused]:
            books.wrong.append(f"{one.name} refused {refused[0]}")
        self.checked.append(
            f"{one.overlap}: {len(sure)} to {len(at_most)} due, {len(runs)} runs, "
            f"{status.skipped} skipped, {status.missed} too late"
            + (f", {replaced} replaced by later ones" if replaced else "")
        )

    async def _runs(self, one: Clocked) -> set[str]:
        """All its runs, whoever knows of them: the server, rows, books."""
        site = self._around.site
        stores, prefix = site.parts.stores, f"{one.name}-2"
        found = {row.id for row in await stores.records.find_runs(prefix=prefix, limit=10_000)}
        found |= {start.run for start in await stores.schedules().starts(one.name, limit=10_000)}
        listed = site.client.list_workflows(f"WorkflowId STARTS_WITH '{prefix}'")
        return found | {execution.id async for execution in listed}

    async def _month(self, one: Clocked, books: Books) -> None:
        """The month of a schedule holds what the journal says its runs spent."""
        stores = self._around.site.parts.stores
        month = await stores.schedules().spend(one.name, at=datetime.now(UTC))
        rows = [row for run in one.runs for row in await stores.journal.tree(root=run, run=run)]
        booked = sum((row.usage for row in rows), Usage()).counted_tokens()
        if (month.tokens, month.held_tokens) != (booked, 0):
            books.wrong.append(
                f"{one.name}: its month says {month.tokens} tokens and holds {month.held_tokens}, "
                f"the journal has {booked}"
            )
