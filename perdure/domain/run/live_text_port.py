"""The port of the text of model calls in flight, whose rules are in `live_text`.

It is a module of its own, since the other ports name it: commands start without those rules.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # imported only for types, so that commands start without it
    from perdure.domain.run.live_text import LiveCall


class LiveTexts(Protocol):
    """Text of model calls in flight, for people who watch: advisory, short-lived, lossy."""

    async def show(self, calls: Sequence["LiveCall"]) -> None:
        """Replace the rows of these calls, at least one, in one commit."""
        ...

    async def drop(self, calls: Sequence["LiveCall"]) -> None:
        """Drop the rows of these calls, at least one, unless a later attempt wrote them."""
        ...

    async def below(self, run: str) -> Sequence["LiveCall"]:
        """The calls of a run and of the runs below it, those that spoke last at the end."""
        ...

    async def watch(self, run: str) -> None:
        """Say that somebody watches a run; to be repeated while it is so."""
        ...

    async def watched(self) -> dict[str, int]:
        """The runs that are or were watched, each with a number that `watch` raises."""
        ...

    async def prune(self) -> None:
        """Drop what workers and watchers that died have left behind."""
        ...
