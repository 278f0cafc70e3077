"""Erasing runs: their content, what memory has of them, and what the server keeps.

In an order that a kill may break off anywhere, and that a repeat completes: tombstones and the list
of what is to go are written first, then the server is told, then rows go, then blobs. What of the
blobs something else names stays. What somebody wrote or renewed within the hour stays too, as a
step may be about to name it; it is on the list, and the next collection drops it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime, timedelta

from perdure.adapters.stores.maintenance import named_by_rows
from perdure.adapters.stores.open_stores import Stores
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.foundation.refs import addresses_in
from perdure.domain.retention.erasure import Erased, ForgottenEntries, RootRun, Tombstone
from perdure.domain.run.status import StoredRun
from perdure.interfaces.gateways import RunGateway
from perdure.operations.expiry import stone_of
from perdure.operations.gc import YOUNG, content, reachable

SHORTEST_SUBJECT = 3


class Eraser:
    """Erases runs of one installation.

    Args:
        stores: what is erased from.
        gateway: tells what the server keeps, and deletes it there.
    """

    def __init__(self, stores: Stores, gateway: RunGateway) -> None:
        self._stores = stores
        self._gateway = gateway
        self._rows = stores.erasure()

    async def find(self, *, subject: str | None = None, label: str | None = None) -> list[str]:
        """Root runs with this label, or whose rows or content mention a text; case is ignored.

        Raises:
            InvalidInput: the text is too short to mean anybody.
        """
        if subject is not None and len(subject.strip()) < SHORTEST_SUBJECT:
            raise InvalidInput(
                f"{subject!r} is too short a text to look for.",
                cure=f"Give {SHORTEST_SUBJECT} characters at least.",
            )
        found: list[str] = []
        async for row in self._roots():
            if label is not None and row.label != label:
                continue
            if subject is None or await self._mentions(row.id, subject.strip()):
                found.append(row.id)
        return found

    async def _roots(self) -> AsyncIterator[RootRun]:
        page = await self._rows.roots()
        while page:
            for root in page:
                yield root
            page = await self._rows.roots(after=page[-1].id)

    async def erase(
        self, root: str, *, now: datetime, dry_run: bool = False, young: timedelta = YOUNG
    ) -> Erased:
        """Erase a run with those below it and what was learned from it; a repeat completes it.

        Raises:
            NotFound: there is no such run, and was none.
            NotAllowed: one of them has not ended, or it is below another run.
            ServiceUnavailable: the server does not answer; nothing was dropped.
        """
        rows = list(await self._rows.tree(root))
        stones = list(await self._rows.tombstones(root))
        self._require(root, rows, stones)
        names = sorted({row.id for row in rows} | {stone.run for stone in stones})
        mine, others, busy = await self._kept_by_server(names)
        mine |= await self._rows.named(names) | await self._rows.marked(root)
        going = await reachable(self._stores.blobs, mine)
        if dry_run:
            return await self._counted(names, going)
        await self._rows.mark(
            [stone_of(row, root, now, "erased") for row in rows], sorted(going), at=now
        )
        # The server first: the rows name what is to be deleted there.
        executions = 0
        for name in names:
            try:
                await self._gateway.delete(name)
            except NotFound:
                continue
            executions += 1
        memory = await self._rows.drop(names)
        needed = await reachable(
            self._stores.blobs, others | await named_by_rows(self._stores.database)
        )
        cutoff = min([now - young, *(began - young for began in busy)])
        unneeded = sorted(going - needed)
        sizes = await self._stores.blobs.delete(unneeded, written_before=cutoff)
        there = await asyncio.gather(*(self._stores.blobs.exists(one) for one in unneeded))
        left = [one for one, kept in zip(unneeded, there, strict=True) if kept]
        await self._rows.unmark(sorted(going - set(left)))
        return Erased(
            runs=tuple(names),
            executions=executions,
            blobs=len(sizes),
            bytes=sum(sizes),
            shared=len(going & needed),
            later=len(left),
            later_at=now + young if left else None,
            memory=memory,
        )

    def _require(self, root: str, rows: Sequence[StoredRun], stones: Sequence[Tombstone]) -> None:
        if not rows and not stones:
            raise NotFound(f"There is no run {root}.", cure="`perdure list` lists all runs.")
        own = next((row for row in rows if row.id == root), None)
        if own is not None and own.parent is not None:
            raise NotAllowed(
                f"The run {root} works for {own.parent}.", cure=f"Erase that one: {own.parent}"
            )
        if still := [row.id for row in rows if row.ended_at is None]:
            raise NotAllowed(
                f"{', '.join(still[:3])} has not ended; only ended runs can be erased.",
                cure=f"Stop it first: perdure stop {still[0]}",
            )

    async def _kept_by_server(
        self, names: Iterable[str]
    ) -> tuple[set[str], set[str], list[datetime]]:
        """What histories of these runs name, and of others; when steps under way began."""
        gone, mine, others = set(names), set[str](), set[str]()
        busy: list[datetime] = []
        async for found in self._gateway.retained():
            target = mine if found.run in gone else others
            for data in found.content:
                target |= addresses_in(data)
            if found.busy_since is not None:
                busy.append(found.busy_since)
        return mine, others, busy

    async def _counted(self, names: Sequence[str], going: set[str]) -> Erased:
        memory: ForgottenEntries = await self._rows.would_forget(names)
        return Erased(runs=tuple(names), blobs=len(going), memory=memory, dry_run=True)

    async def _mentions(self, root: str, subject: str) -> bool:
        """Whether rows of a tree, or what they lead to, hold a text."""
        names = [row.id for row in await self._rows.tree(root)]
        needles = {subject.casefold(), json.dumps(subject)[1:-1].casefold()}
        texts = await self._rows.texts(names)
        if any(needle in text.casefold() for text in texts for needle in needles):
            return True
        roots: set[str] = set()
        for text in texts:
            roots |= addresses_in(text.encode(errors="replace"))
        for address in await reachable(self._stores.blobs, roots):
            text = (await content(self._stores.blobs, address)).decode(errors="replace").casefold()
            if any(needle in text for needle in needles):
                return True
        return False
