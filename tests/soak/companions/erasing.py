"""Erasures of people while runs work: their words are gone everywhere, the figures stay."""

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

import psycopg
from provider import MODEL
from waiting import eventually

from perdure.adapters.stores.clock import utc_now
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.llm.usage import Usage
from perdure.operations.erase import Eraser
from perdure.operations.gc import YOUNG, collect
from tests.soak.books import Books
from tests.soak.companions.companion import Around
from tests.soak.patience import patiently

FIRST_NUMBER = 20_000
ROUND_S = (15.0, 40.0)
WAYS = ("by label", "by subject", "by run", "left to a collection")
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"


@dataclass
class Owner:
    """Somebody whose runs are erased: a name that only their prompts and outputs hold."""

    name: str
    label: str
    way: str
    runs: list[str] = field(default_factory=list)


class Erasing:
    """Starts runs about people who are erased once these have ended."""

    name = "erasures"

    def __init__(self, around: Around, database: str) -> None:
        self._around = around
        self._database = database
        self._owners: list[Owner] = []
        self._eraser = Eraser(around.site.parts.stores, around.site.gateway)
        self.did: Counter[str] = Counter()
        self.checked: list[str] = []

    async def go(self) -> None:
        """Erase one person after the other until the soak is over."""
        chance = self._around.chance(self.name)
        while await self._around.rest(chance.uniform(*ROUND_S)):
            owner = await self._owner(chance)
            for run in owner.runs:
                await self._around.watch.runs[run].ended.wait()
            await self._erase(owner)

    async def check(self, books: Books) -> None:
        """Collect what was too young, and look for the words everywhere."""
        site = self._around.site
        stores = site.parts.stores
        later = utc_now() + timedelta(hours=2)

        async def complete() -> bool:
            # The server deletes executions a moment later; until then they name content.
            await collect(stores, site.gateway, site.parts.workspaces, now=later, dry_run=False)
            pending = await stores.erasure().pending()
            return not pending.roots and not pending.blobs

        try:
            await eventually(complete, every=1.0)
        except AssertionError:
            left = await stores.erasure().pending()
            if left.roots:
                books.wrong.append(f"erasures are not complete: {left}")
            # A step at work keeps all that is young.
            at_work = [
                f"{one.run} since {one.busy_since:%H:%M:%S}"
                async for one in site.gateway.retained()
                if one.busy_since is not None and one.may_work(since=later - YOUNG)
            ]
            if at_work:
                books.wrong.append(f"at the end of all runs there is work: {', '.join(at_work)}")
            # What other runs wrote too stays marked; whether a name is in it is looked up below.
            self.checked.append(f"{left.blobs} blobs of erased runs stay, as others name them")
        for owner in self._owners:
            for run in owner.runs:
                await self._gone(run, books)
        await self._unnamed(books)
        runs = sum(len(owner.runs) for owner in self._owners)
        self.checked.append(
            f"{len(self._owners)} names are in no table and no blob, "
            f"{runs} runs are in the journal as they were in their results"
        )

    async def _owner(self, chance: random.Random) -> Owner:
        """A person with two runs under way."""
        count = len(self._owners)
        name = f"Ada Lovelace-{chance.getrandbits(48):x}"
        owner = Owner(name, f"owner-{count}", WAYS[count % len(WAYS)])
        self._owners.append(owner)
        for nth in range(2):
            number = FIRST_NUMBER + 10 * count + 5 * nth
            task: dict[str, object] = {
                "kind": "agent",
                "goal": f"Task {number} of a soak, for {name}.",
                "models": {"executor": MODEL},
                "learn": False,
                "metadata": {"label": owner.label},
            }
            run = f"soak-{number}"
            await patiently(lambda task=task, run=run: self._around.site.start(task, run_id=run))
            self._around.watch.follow(run, number=number)
            owner.runs.append(run)
        return owner

    async def _erase(self, owner: Owner) -> None:
        match owner.way:
            case "by label":
                found = await patiently(lambda: self._eraser.find(label=owner.label))
            case "by subject":
                found = await patiently(lambda: self._eraser.find(subject=owner.name))
            case _:
                found = list(owner.runs)
        assert set(found) == set(owner.runs), (owner, found)
        await patiently(lambda: self._eraser.ask(found, now=utc_now()))
        self.did[f"erased {owner.way}"] += 1
        if owner.way == "left to a collection":
            return
        try:
            for run in found:
                await self._eraser.drop(run, now=utc_now())
            young = self._around.pace.young
            swept = await self._eraser.sweep(found, now=utc_now() - young, young=young)
            self.did["blobs dropped at once"] += swept.blobs
        except PerdureError as error:
            # Broken off: whoever collects next completes it.
            self.did[f"broken off by {type(error).__name__}"] += 1

    async def _gone(self, run: str, books: Books) -> None:
        site, stores = self._around.site, self._around.site.parts.stores
        if await stores.records.run(run) is not None or await stores.records.records(run):
            books.wrong.append(f"{run} was erased and has rows")
        why = [stone.why for stone in await stores.erasure().tombstones(run)]
        if why != ["erased"]:
            books.wrong.append(f"{run} was erased, its tombstones say {why}")
        if [one.id async for one in site.client.list_workflows(f"WorkflowId = '{run}'")]:
            books.wrong.append(f"{run} was erased and is at the server")
        result = self._around.watch.runs[run].result
        rows = await stores.journal.tree(root=run, run=run)
        booked = sum((row.usage for row in rows), Usage()).counted_tokens()
        if result is None or result.spend.tokens != booked:
            told = None if result is None else result.spend.tokens
            books.wrong.append(f"{run} spent {told} tokens, its journal says {booked}")

    async def _unnamed(self, books: Books) -> None:
        """No name is in any row of any table, nor in any blob."""
        names = [owner.name for owner in self._owners]
        async with await psycopg.AsyncConnection.connect(self._database) as connection:
            tables = [row[0] for row in await (await connection.execute(TABLES)).fetchall()]
            for table in tables:
                rows = await connection.execute(f'SELECT t::text FROM "{table}" t')  # type: ignore[arg-type]
                async for (text,) in rows:
                    books.wrong += [f"{name} is in {table}" for name in names if name in text]
        blobs = self._around.site.parts.stores.blobs
        async for address, _, _ in blobs.addresses():
            text = (await blobs.get(address)).decode(errors="replace")
            books.wrong += [f"{name} is in the blob {address}" for name in names if name in text]
