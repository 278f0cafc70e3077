"""What every companion is, and what it is given."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from installation import Installation

from tests.soak.books import Books
from tests.soak.load import Models
from tests.soak.pace import Pace
from tests.soak.watching import Watch


@dataclass
class Around:
    """What a companion acts on.

    Args:
        site: the installation, as interfaces reach it.
        models: what the provider plays; a companion has tasks of its own numbers.
        watch: follows runs to their ends, and notes results before anything deletes them.
        pace: how time runs.
        seed: with the companion's name it decides all that is left to chance.
        load: the ids of the plain runs, as they are started.
        kill_workers: kills the workers of all hosts at once, and starts them again.
        over: set when nothing new is begun.
    """

    site: Installation
    models: Models
    watch: Watch
    pace: Pace
    seed: int
    load: Sequence[str]
    kill_workers: Callable[[], Awaitable[None]]
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def chance(self, name: str) -> random.Random:
        """Chance of its own for each companion, so that one does not change another's."""
        return random.Random(f"{self.seed} {name}")

    async def rest(self, seconds: float) -> bool:
        """Wait so long; False when the soak is over."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)
        return not self.over.is_set()


class Companion(Protocol):
    """Something that goes on beside the load, and is checked at the end."""

    name: str
    did: Counter[str]
    checked: list[str]

    async def go(self) -> None:
        """Act until the soak is over, and see to the end what was begun."""
        ...

    async def check(self, books: Books) -> None:
        """Add to `books.wrong` what is not as it should be; all runs have ended."""
        ...


def told(companion: Companion) -> list[str]:
    """A companion's part of the account, in lines for people."""
    did = ", ".join(f"{count} {what}" for what, count in companion.did.items()) or "nothing"
    return [f"{companion.name:<20} {did}", *[f"{'':<20}   {line}" for line in companion.checked]]
