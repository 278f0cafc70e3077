"""The port `MemoryStore`: candidates and counts come from a store, their order from `ranking`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.memory.entries import Kind, MemoryEntry, Skill


class Corpus(FrozenModel):
    """Counts over everything that can be searched: entries, their mean length, and who has a term.

    `holders` gives for each term of a question the number of entries that hold it.
    """

    entries: int = 0
    mean_terms: float = 0.0
    holders: dict[str, int] = {}


class Candidates(FrozenModel):
    """Entries that share a term with a question, in no order, and the counts that rank them.

    `unreadable` are the ids of those that this version cannot read.
    """

    entries: tuple[MemoryEntry, ...] = ()
    corpus: Corpus = Corpus()
    unreadable: tuple[str, ...] = ()


class Kept(FrozenModel):
    """The stored entry after `put`; `merged` if it repeated an existing one."""

    entry: MemoryEntry
    merged: bool = False


class MemoryStore(Protocol):
    """What is kept between runs. Every write may be repeated."""

    async def put(self, entry: MemoryEntry) -> Kept:
        """Add an entry, or merge it into the one that says the same (see `deduplication`).

        Raises `NotAllowed` where a run would replace a skill that a person wrote.
        """
        ...

    async def replace(self, entry: MemoryEntry) -> None:
        """Write an entry over the one with its id; raises `NotFound` when there is none."""
        ...

    async def get(self, entry: str) -> MemoryEntry:
        """One entry by its id, or by a unique beginning of one.

        Raises `NotFound`, `InvalidInput` when several ids begin so, or `StoreError` when this
        version cannot read it.
        """
        ...

    async def skill(self, name: str) -> Skill | None:
        """The skill of that name, or None; case does not matter."""
        ...

    async def list(
        self, *, kinds: Sequence[Kind] = (), category: str | None = None, limit: int = 100
    ) -> Sequence[MemoryEntry]:
        """Entries that can be read, the newest first; no kinds means all of them."""
        ...

    async def unreadable(self) -> Sequence[str]:
        """The ids of entries that this version cannot read; other methods pass over them."""
        ...

    async def candidates(
        self, terms: Sequence[str], *, kinds: Sequence[Kind], limit: int = 500
    ) -> Candidates:
        """What may be relevant to a question's terms, with the counts that rank it.

        The rarest terms come first: more common ones are looked up while about `limit` entries
        hold them together.
        """
        ...

    async def mark_used(self, entries: Sequence[str], *, run: str, at: datetime) -> int:
        """Count one use by `run` for each entry, once; returns how many were counted."""
        ...

    async def used(self, run: str) -> Sequence[str]:
        """The ids that were marked used by a run."""
        ...

    async def record_outcome(self, run: str, *, accepted: bool) -> Sequence[str]:
        """Tell the entries that a run used how it ended; returns those that did not know it yet.

        Another outcome, as after a retry, takes the place of the one before.
        """
        ...

    async def forget(self, entry: str) -> None:
        """Drop one entry by its full id; raises `NotFound`."""
        ...

    async def forget_faded(self, now: datetime) -> int:
        """Drop what runs wrote and time has faded (see `ranking`); returns how many."""
        ...
