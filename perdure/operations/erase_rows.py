"""Erases one tree of runs: its rows, its traces in memory, and its executions at the server.

All of it is found by indexes and by the ids of the tree, so the cost does not grow with the
installation. The blobs of the tree are only listed here. Whether something else names them needs a
search of the whole installation, which `erase` and `gc` make once for all trees.
"""

from collections.abc import Sequence
from datetime import datetime

from perdure.adapters.stores.open_stores import Stores
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.foundation.names import learn_run_id
from perdure.domain.foundation.refs import addresses_in
from perdure.domain.retention.erasure import Erased, Tombstone
from perdure.domain.run.status import StoredRun
from perdure.interfaces.gateways import RunGateway
from perdure.operations.doctor_checks import OPEN_LIFECYCLES
from perdure.operations.expiry import stone_of
from perdure.operations.following import reachable

_STOP = "Stop it first: perdure stop {run}"
_TAKE_UP = (
    "The Temporal server does not know it. Where another one has it, stop it there; else "
    "`perdure retry {run}` takes it up from the store, and `perdure stop {run}` ends it."
)


class TreeEraser:
    """Erases trees of one installation, except for content, which other runs may name.

    Args:
        stores: the stores of the installation.
        gateway: reads and deletes what the server keeps of a tree.
    """

    def __init__(self, stores: Stores, gateway: RunGateway) -> None:
        self._stores = stores
        self._gateway = gateway
        self._rows = stores.erasure()

    async def plan(self, root: str) -> Erased:
        """What would be erased.

        Raises:
            NotFound: there is and was no such run.
            NotAllowed: one of them has not ended, or it is below another run.
            ServiceUnavailable: the server does not answer.
        """
        names, _, going = await self._look(root)
        memory = await self._rows.would_forget(names)
        return Erased(runs=tuple(names), blobs=len(going), memory=memory, dry_run=True)

    async def check(self, root: str) -> None:
        """Raise like `plan` if a tree cannot be erased."""
        await self._erasable(root)

    async def drop(self, root: str, *, now: datetime) -> Erased:
        """Erase a tree; raises like `plan`. After an interruption, a repeat completes it."""
        names, rows, going = await self._look(root)
        stones = [stone_of(row, root, now, "erased") for row in rows]
        await self._rows.mark(stones, sorted(going), root=root, at=now)
        # Delete at the server first: without the rows, nobody would know what to delete there.
        executions = 0
        for name in reversed(names):  # those below a run first, as it would go with all of them
            try:
                await self._gateway.delete(name)
            except NotFound:
                continue
            executions += 1
        # What the run that learned had journaled goes even where its execution is long gone.
        memory = await self._rows.drop([*names, *await self.learners(root)])
        await self._rows.close_erasure(root)
        return Erased(runs=tuple(names), executions=executions, memory=memory)

    async def _look(self, root: str) -> tuple[list[str], Sequence[StoredRun], set[str]]:
        """The ids of a tree, its rows, and the blobs that rows and histories lead to."""
        rows, stones = await self._erasable(root)
        names = sorted({row.id for row in rows} | {stone.run for stone in stones})
        learners = await self.learners(root)
        # With what an interrupted attempt has listed: the rows that named it may be gone.
        mine = await self._rows.addresses_of(
            [*names, *learners]
        ) | await self._rows.marked_addresses(root)
        kept = set[str]()
        async for found in self._gateway.retained([*names, *learners]):
            kept.add(found.run)
            for data in found.content:
                mine |= addresses_in(data)
        names += [one for one in learners if one in kept]
        return names, rows, await reachable(self._stores.blobs, mine)

    async def learners(self, root: str) -> list[str]:
        """The id of the run that learned from a root, which has no row and gets no tombstone.

        None where somebody called a run of their own so.
        """
        learner = learn_run_id(root)
        own = await self._stores.records.run(learner) or await self._rows.tombstones(learner)
        return [] if own else [learner]

    async def _require_learned(self, root: str) -> None:
        for learner in await self.learners(root):
            try:
                status = await self._gateway.status(learner)
            except NotFound:
                continue
            if status.lifecycle in OPEN_LIFECYCLES:
                raise NotAllowed(
                    f"{learner}, which learns from {root}, has not ended; only ended runs can be "
                    "erased.",
                    cure=f"Wait until it has, or stop it: perdure stop {learner}",
                )

    async def _erasable(self, root: str) -> tuple[Sequence[StoredRun], Sequence[Tombstone]]:
        """The rows and tombstones of a tree; raises like `plan`.

        What was ended at the server wrote no end: it is noted as ended first, and so keeps its end
        if the erasure stops here.
        """
        rows, stones = await self._rows.tree(root), await self._rows.tombstones(root)
        if still := [row.id for row in rows if row.ended_at is None]:
            await self._gateway.close_rows(runs=still)
            rows = await self._rows.tree(root)
        await self._require(root, rows, stones)
        if still := [row.id for row in rows if row.ended_at is None]:
            known = (await self._gateway.status(still[0])).lifecycle in OPEN_LIFECYCLES
            raise NotAllowed(
                f"{', '.join(still[:3])} has not ended; only ended runs can be erased.",
                cure=_STOP.format(run=still[0]) if known else _TAKE_UP.format(run=still[0]),
            )
        await self._require_learned(root)
        return rows, stones

    async def _require(
        self, root: str, rows: Sequence[StoredRun], stones: Sequence[Tombstone]
    ) -> None:
        if not rows and not stones:
            raise NotFound(f"There is no run {root}.", cure="`perdure list` lists all runs.")
        parent = next((row.parent for row in rows if row.id == root), None)
        if parent is not None and await self._stores.records.run(parent) is not None:
            raise NotAllowed(
                f"The run {root} works for {parent}.", cure=f"Erase that one: {parent}"
            )


async def complete_erasures(
    stores: Stores, gateway: RunGateway, *, now: datetime
) -> list[tuple[str, str]]:
    """Complete interrupted erasures; returns those that cannot be completed, with the reasons.

    Raises:
        ServiceUnavailable: the server does not answer.
        StoreError: something cannot be read.
    """
    rows, eraser = stores.erasure(), TreeEraser(stores, gateway)
    left: list[tuple[str, str]] = []
    for root in (await rows.pending()).roots:
        try:
            await eraser.drop(root, now=now)
        except NotFound:
            await rows.close_erasure(root)  # the run was deleted before the erasure wrote anything
        except NotAllowed as error:
            left.append((root, error.message))
    return left
