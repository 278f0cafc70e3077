"""Collections on a schedule and by hand, while ended runs are kept for a moment only."""

import asyncio
from collections import Counter
from datetime import timedelta

from short_retention import AT_ONCE

from perdure.adapters.stores.clock import utc_now
from perdure.domain.foundation.errors import PerdureError
from perdure.interfaces.services import Collected
from perdure.operations.following import reachable
from perdure.operations.gc import collect
from tests.soak.books import Books
from tests.soak.companions.companion import Around
from tests.soak.patience import patiently

EVERY = timedelta(minutes=1)
PAUSES_S = (4.0, 20.0)


class Collecting:
    """Collects garbage at random moments, beside a schedule that does so every minute."""

    name = "collections"

    def __init__(self, around: Around) -> None:
        self._around = around
        self.did: Counter[str] = Counter()
        self.checked: list[str] = []

    async def go(self) -> None:
        """Collect until the soak is over; then end the schedule."""
        chance = self._around.chance(self.name)
        upkeep = self._around.site.gateway.upkeep("collection")
        await patiently(lambda: upkeep.schedule_every(EVERY))
        while await self._around.rest(chance.uniform(*PAUSES_S)):
            try:
                await self._collect()
            except PerdureError as error:
                # A store or server that is away says so; a collection begins anew.
                self.did[f"by hand told of {type(error).__name__}"] += 1
        await patiently(upkeep.delete_schedule)
        await patiently(self._none_open)

    async def check(self, books: Books) -> None:
        """What is left is whole, and schedules did their part."""
        await self._scheduled(books)
        found = await self._collect()
        if found.left:
            books.wrong.append(f"a collection left {found.left} runs: {found.left_runs}")
        await self._whole(books)

    async def _none_open(self) -> None:
        """Wait for a collection that is under way: beside it, nothing young goes."""
        open_ones = "WorkflowType = 'Collection' AND ExecutionStatus = 'Running'"
        while (await self._around.site.client.count_workflows(open_ones)).count:
            await asyncio.sleep(1.0)

    async def _collect(self) -> Collected:
        site, pace = self._around.site, self._around.pace
        found = await collect(
            site.parts.stores,
            site.gateway,
            site.parts.workspaces,
            now=utc_now() - pace.kept,
            dry_run=False,
            young=pace.young,
            rules=AT_ONCE,
        )
        self.did["by hand"] += 1
        self.did["runs dropped by hand"] += found.runs
        self.did["blobs dropped by hand"] += found.blobs
        return found

    async def _scheduled(self, books: Books) -> None:
        """Every collection of the schedule ended well; workers that died only made it later."""
        site = self._around.site
        queued = site.client.list_workflows("WorkflowType = 'Collection'")
        async for found in queued:
            handle = site.client.get_workflow_handle(found.id, run_id=found.run_id)
            try:
                report = await handle.result()
            except Exception as error:  # whatever it says belongs into the account
                books.wrong.append(f"{found.id}: {error!r} {error.__cause__!r}")
                continue
            self.did["on schedule"] += 1
            self.did["runs dropped on schedule"] += report.get("runs", 0)
            self.did["blobs dropped on schedule"] += report.get("blobs", 0)

    async def _whole(self, books: Books) -> None:
        """All that runs which are kept lead to is there."""
        site, kept = self._around.site, 0
        stores = site.parts.stores
        for run in self._around.watch.runs:
            if await stores.records.run(run) is None:
                continue
            kept += 1
            names = [row.id for row in await stores.erasure().tree(run)]
            leads = await reachable(stores.blobs, await stores.erasure().addresses_of(names))
            lost = [one for one in sorted(leads) if not await stores.blobs.exists(one)]
            if lost:
                books.wrong.append(f"{run}: {len(lost)} of {len(leads)} blobs are lost: {lost[:3]}")
        self.checked.append(f"{kept} trees are kept, and all blobs that they lead to are there")
