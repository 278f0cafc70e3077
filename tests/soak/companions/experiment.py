"""An experiment that is killed in the middle: each of its runs once, and its spend is theirs."""

from collections import Counter
from decimal import Decimal

from provider import MODEL
from pydantic import JsonValue
from temporalio.service import RPCError

from perdure.domain.budget.journal import AttemptRow
from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.experiments.trials import Try
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.llm.usage import Usage
from perdure.gateway.experiments import Experiments
from perdure.submission.experiments import experiment_of
from perdure.submission.types import Surroundings
from tests.soak.books import Books
from tests.soak.companions.companion import Around
from tests.soak.patience import patiently

ID = "soak-experiment"
NUMBER = 30_002
SECONDS_AN_INPUT = 50.0
LOOK_S = 2.0
# What may come of a run that was open when its experiment was terminated: it stops with its best.
ENDS = frozenset({"accepted", "best_effort", "regressed", "stopped"})
RUBRIC: JsonValue = [{"name": "oak", "evaluator": {"check": "contains", "all": ["oak", "elm"]}}]


class Experiment:
    """One experiment of three arms; its workers are killed, and then it is terminated itself."""

    name = "experiment"

    def __init__(self, around: Around) -> None:
        self._around = around
        site = around.site
        self._gateway: Experiments = site.gateway.experiments(site.parts.stores.experiments())
        around.models.shared.add(NUMBER)
        self._inputs = max(2, round(around.pace.seconds / SECONDS_AN_INPUT))
        self.did: Counter[str] = Counter()
        self.checked: list[str] = []

    async def go(self) -> None:
        """Start it, kill it twice, and see it to its end."""
        if not await self._around.rest(self._around.pace.seconds * 0.1):
            return
        await patiently(self._start)
        self.did["started"] += 1
        chance = self._around.chance(self.name)
        kills = [chance.uniform(0.2, 0.4), chance.uniform(0.5, 0.8)]
        while (status := await patiently(lambda: self._gateway.status(ID))).open:
            if kills and status.ended >= kills[0] * status.trials:
                del kills[0]
                await self._kill(last=not kills)
            await self._around.rest(LOOK_S)
            await self._follow()
        await self._follow()

    async def check(self, books: Books) -> None:
        """Every trial once, and what was spent is what the journal says of its runs."""
        status = await self._gateway.status(ID)
        trials = list(await self._gateway.trials(ID))
        wanted = self._inputs * 3
        if (status.reason, len(trials), status.ended) != ("completed", wanted, wanted):
            books.wrong.append(f"the experiment ended {status.reason}, {status.ended} of {wanted}")
        tries = [one for trial in trials for one in trial.tries]
        runs, stored = Counter(one.run for one in tries), set(await self._runs())
        if set(runs) != stored or max(runs.values(), default=0) > 1:
            books.wrong.append(f"runs of trials are {sorted(set(runs) ^ stored)} apart: {runs}")
        for one in tries:
            await self._same(one, books)
        await self._whole(status, sorted(stored), books)

    async def _start(self) -> None:
        task: dict[str, JsonValue] = {
            "kind": "refine",
            "goal": f"Task {NUMBER} of a soak.",
            "context": {"about": None},
            "models": {"executor": MODEL},
            "rubric": RUBRIC,
            "refine": {"plan": "off", "classify": "off", "max_iterations": 3},
            "budget": {"tokens": 100_000},
        }
        inputs: JsonValue = [{"about": f"tree {number}"} for number in range(self._inputs)]
        arms: JsonValue = {
            "loop": {},
            "single": {"refine.max_iterations": 1},
            "two": {"best_of": 2},
        }
        data: JsonValue = {"task": task, "inputs": inputs, "arms": arms, "parallel": 2}
        made = experiment_of(data, surroundings=Surroundings(folder=None))
        await self._gateway.start(made.plan, made.entries, id=ID)

    async def _kill(self, *, last: bool) -> None:
        """First the workers of all hosts, then its own execution at the server."""
        if not last:
            await self._around.kill_workers()
            self.did["workers killed under it"] += 1
            return
        handle = self._around.site.handle(ID)
        try:
            await handle.terminate("the soak")
        except RPCError:
            return  # the server is away, or it has ended
        self.did["terminated and started again"] += 1
        await patiently(self._start)

    async def _runs(self) -> list[str]:
        records = self._around.site.parts.stores.records
        found = await records.find_runs(prefix=f"{ID}-", limit=10_000)
        return [row.id for row in found if row.parent is None]

    async def _follow(self) -> None:
        """Follow what was started since; a row is written a moment before its run is started."""
        try:
            for run in await self._runs():
                if run not in self._around.watch.runs:
                    await self._around.site.handle(run).describe()
                    self._around.watch.follow(run, ends=ENDS)
                    self.did["runs"] += 1
        except (PerdureError, RPCError):
            pass  # the store or the server is away; the next look finds them

    async def _same(self, one: Try, books: Books) -> None:
        rows = await self._rows([one.run])
        if one.spent_tokens != _tokens(rows):
            told = f"{one.spent_tokens} tokens, the journal has {_tokens(rows)}"
            books.wrong.append(f"the experiment says of {one.run} {told}")

    async def _whole(self, status: ExperimentStatus, runs: list[str], books: Books) -> None:
        rows = await self._rows(runs)
        cost = sum((row.cost_usd or Decimal(0) for row in rows), Decimal(0))
        if (status.spent_tokens, status.spent_usd) != (_tokens(rows), cost):
            books.wrong.append(
                f"the experiment spent {status.spent_tokens} tokens and ${status.spent_usd}, "
                f"the journal of its runs has {_tokens(rows)} and ${cost}"
            )
        self.checked.append(
            f"{status.ended} trials, {len(runs)} runs, each once; {status.spent_tokens:,} tokens "
            f"and ${status.spent_usd}, as in the journal"
        )

    async def _rows(self, runs: list[str]) -> list[AttemptRow]:
        journal = self._around.site.parts.stores.journal
        return [row for run in runs for row in await journal.tree(root=run, run=run)]


def _tokens(rows: list[AttemptRow]) -> int:
    return sum((row.usage for row in rows), Usage()).counted_tokens()
