"""People who pause, guide, fork and retry at random, in an order that a seed decides."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable

from provider import MODEL

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound, PerdureError
from perdure.domain.run.messages import AddInput, Amend, Pause, Resume, Retry
from tests.soak.books import Books
from tests.soak.companions.companion import Around
from tests.soak.load import KINDS
from tests.soak.patience import patiently

FORKS, FAILING = 50_000, 40_000
PAUSES_S = (3.0, 12.0)
PAUSED_S = (1.0, 6.0)
# Its drafts begin anew, and may be worse than the one that it goes on from.
OF_FORKS = frozenset({"accepted", "best_effort", "regressed"})
REFUSED = (NotAllowed, NotFound, InvalidInput)


class People:
    """One act after the other, each on a run of the load or on one of their own."""

    name = "people"

    def __init__(self, around: Around) -> None:
        self._around = around
        self._acts = 0
        self.did: Counter[str] = Counter()
        self.checked: list[str] = []

    async def go(self) -> None:
        """Act until the soak is over."""
        chance = self._around.chance(self.name)
        acts: list[Callable[[random.Random], Awaitable[None]]] = [
            self._pause,
            self._guide,
            self._add,
            self._fork,
            self._retry,
        ]
        while await self._around.rest(chance.uniform(*PAUSES_S)):
            self._acts += 1
            # Its own chance for each act, so that how long one takes does not change the next.
            own = random.Random(chance.random())
            try:
                await chance.choice(acts)(own)
            except REFUSED as error:
                self.did[f"refused ({error.code})"] += 1
            except PerdureError:
                self.did["met an outage"] += 1

    async def check(self, books: Books) -> None:
        """What they started ended as it should; books of all runs are compared elsewhere."""
        started = [run for run in self._around.watch.runs if run.startswith("people-")]
        self.checked.append(f"{len(started)} runs of their own, in the books like all others")

    def _run(self, chance: random.Random) -> str:
        """One of the newest runs of the load, which may be open."""
        newest = self._around.load[-8:]
        if not newest:
            raise NotFound("No run has been started yet.", cure="Wait.")
        return chance.choice(newest)

    async def _pause(self, chance: random.Random) -> None:
        run, gateway = self._run(chance), self._around.site.gateway
        await gateway.verb(run, Pause(by="ann", request_id=f"pause {self._acts}"))
        self.did["paused"] += 1
        await self._around.rest(chance.uniform(*PAUSED_S))
        again = Resume(by="ann", request_id=f"resume {self._acts}")
        await patiently(lambda: gateway.verb(run, again), final=REFUSED)

    async def _guide(self, chance: random.Random) -> None:
        said = Amend(guidance="Be brief.", by="ben", request_id=f"guide {self._acts}")
        await self._around.site.gateway.verb(self._run(chance), said)
        self.did["guided"] += 1

    async def _add(self, chance: random.Random) -> None:
        said = AddInput(text="Go on as you are.", by="cid", request_id=f"add {self._acts}")
        for _ in range(2):
            await self._around.site.gateway.verb(self._run(chance), said)
        self.did["told something twice"] += 1

    async def _fork(self, chance: random.Random) -> None:
        """A new run from some iteration of another, with a goal of its own."""
        run, gateway = self._run(chance), self._around.site.gateway
        records = await gateway.records(run)
        if not records:
            raise NotFound(f"{run} has no iteration yet.", cure="Wait.")
        iteration = chance.choice(records).index
        spec = await gateway.fork_spec(run, iteration)
        number = FORKS + self._acts * len(KINDS) + int(run.removeprefix("soak-")) % len(KINDS)
        changed = spec.model_copy(update={"goal": f"Task {number} of a soak."})
        fork = f"people-fork-{number}"
        for _ in range(2):  # sent twice: one run
            await patiently(
                lambda: gateway.fork(run, iteration, changed, run_id=fork), final=REFUSED
            )
        self._around.watch.follow(fork, number=number, ends=OF_FORKS)
        self.did["forked"] += 1

    async def _retry(self, chance: random.Random) -> None:
        """A run whose model refuses it for good, until somebody mends that and retries."""
        del chance
        site, number = self._around.site, FAILING + self._acts * len(KINDS)
        run = f"people-retry-{number}"
        self._around.models.broken.add(number)
        task: dict[str, object] = {
            "kind": "agent",
            "goal": f"Task {number} of a soak.",
            "models": {"executor": MODEL},
            "learn": False,
        }
        await patiently(lambda: site.start(task, run_id=run))
        failed = self._around.watch.follow(run, ends={"failed"}, number=number)
        await failed.ended.wait()
        self._around.models.broken.discard(number)
        again = Retry(note="It is mended.", by="dan", request_id=f"retry {number}")
        for _once_more in range(2):  # one effect
            await patiently(lambda: site.gateway.verb(run, again))
        self._around.watch.follow(run, number=number)
        self.did["retried"] += 1
