"""What is left of a run that was erased, and what an erasure found and dropped."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.run.child_runs import is_below, lineage
from perdure.domain.run.status import StoredRun

COUNTS = ("learnings", "episodes", "skills", "patterns", "events", "tools")
TombstoneReason = Literal["erased", "expired"]


class Tombstone(FrozenModel):
    """What the books keep of a run; without its goal, and after an erasure without its label."""

    run: str
    root: str
    kind: str
    label: str | None = None
    outcome: str | None = None
    started_at: datetime
    ended_at: datetime | None = None
    at: datetime
    why: TombstoneReason


class RootRun(FrozenModel):
    """What is asked of root runs where many of them are read; `ended_at` is None of an open one."""

    id: str
    label: str | None = None
    outcome: str | None = None
    ended_at: datetime | None = None


class ForgottenEntries(FrozenModel):
    """How much of memory came from erased runs.

    Kept are `shared` ones: other runs said it too, or this version cannot read whether they did.
    """

    learnings: int = 0
    episodes: int = 0
    skills: int = 0
    patterns: int = 0
    events: int = 0
    tools: int = 0
    shared: tuple[str, ...] = ()


class Erased(FrozenModel):
    """What an erasure did, or would do.

    Args:
        runs: the runs, each with those below it and the one that learned from it.
        executions: how many executions the server was told to delete.
        blobs: blobs that were dropped, with their stored `bytes`.
        shared: blobs that stay, as something else names them.
        later: blobs too young to be dropped safely; a collection after `later_at` drops them.
        memory: what was forgotten.
        dry_run: only counted.
    """

    type: Literal["erased"] = "erased"
    runs: tuple[str, ...] = ()
    executions: int = 0
    blobs: int = 0
    bytes: int = 0
    shared: int = 0
    later: int = 0
    later_at: datetime | None = None
    memory: ForgottenEntries = ForgottenEntries()
    dry_run: bool = False

    def with_content(self, swept: "Erased") -> "Erased":
        """With what a look at content dropped and left."""
        return self.model_copy(
            update={
                name: getattr(swept, name)
                for name in ("blobs", "bytes", "shared", "later", "later_at")
            }
        )


def added_up(dropped: Sequence[Erased]) -> Erased:
    """What the erasures of several trees did together."""
    # Blobs are not added up: they are looked at once, for all trees, and told by `with_content`.
    memory: dict[str, int] = dict.fromkeys(COUNTS, 0)
    shared: dict[str, None] = {}
    for one in dropped:
        for name in COUNTS:
            memory[name] += getattr(one.memory, name)
        shared |= dict.fromkeys(one.memory.shared)
    return Erased(
        runs=tuple(run for one in dropped for run in one.runs),
        executions=sum(one.executions for one in dropped),
        memory=ForgottenEntries(shared=tuple(shared), **memory),
    )


class Pending(FrozenModel):
    """What is left of erasures that were begun.

    Args:
        roots: trees that somebody wants erased and whose rows may be there still, oldest first.
        since: when the first of them was asked for.
        blobs: addresses of erased runs of which no collection has said yet whether they may go.
        blobs_since: when the first of them was marked.
    """

    roots: tuple[str, ...] = ()
    since: datetime | None = None
    blobs: int = 0
    blobs_since: datetime | None = None


def of_tree(root: str, rows: Sequence[StoredRun]) -> list[StoredRun]:
    """Of runs whose ids begin like a root's, those of its tree: others may be named like that."""
    # A run without a parent belongs to nobody's tree, with all below it, however somebody called
    # it.
    others = {row.id for row in rows if row.parent is None and is_below(row.id, root)}
    return [row for row in rows if others.isdisjoint(lineage(row.id))]


class ErasureStore(Protocol):
    """Rows of runs that are to go. Every write may be repeated."""

    async def ended(
        self, *, by: datetime, after: RootRun | None = None, limit: int = 500
    ) -> Sequence[RootRun]:
        """A page of root runs that ended by then, oldest first; the next is `after` the last."""
        ...

    async def roots(self, *, after: str = "", limit: int = 500) -> Sequence[RootRun]:
        """A page of all root runs by id; the next is `after` the last id."""
        ...

    async def adopt(self) -> None:
        """Make roots of ended runs whose parent has no row, so that rules and searches find them.

        Earlier versions deleted runs without those below them.
        """
        ...

    async def tree(self, root: str) -> Sequence[StoredRun]:
        """A run and those below it.

        The run that learned from it has no row: one of that name is a run that somebody called so.
        """
        ...

    async def tombstones(self, root: str) -> Sequence[Tombstone]:
        """What is left of a tree that was erased before, maybe not to the end."""
        ...

    async def addresses_of(self, runs: Sequence[str]) -> set[str]:
        """Every address in a row of these runs."""
        ...

    async def texts(self, runs: Sequence[str]) -> Sequence[str]:
        """Every text in a row of these runs."""
        ...

    async def ask(self, roots: Sequence[str], *, at: datetime) -> None:
        """Note that these trees are to be erased, so that a collection goes on after a kill."""
        ...

    async def pending(self) -> Pending:
        """What is left to do."""
        ...

    async def close_erasure(self, root: str) -> None:
        """Note that the rows of a tree are gone, or that it cannot be erased."""
        ...

    async def mark(
        self, stones: Sequence[Tombstone], addresses: Sequence[str], *, root: str, at: datetime
    ) -> None:
        """Write tombstones, and the addresses that are to go, before anything is dropped."""
        ...

    async def marked_addresses(self, root: str = "") -> set[str]:
        """Addresses that were to go and may be there still, of one tree or of all."""
        ...

    async def unmark(self, addresses: Sequence[str]) -> None:
        """Forget addresses that are gone, or that something else names."""
        ...

    async def drop(self, runs: Sequence[str]) -> ForgottenEntries:
        """Drop all rows of these runs but those of the journal, and what memory has of them."""
        ...

    async def would_forget(self, runs: Sequence[str]) -> ForgottenEntries:
        """What `drop` would forget."""
        ...
