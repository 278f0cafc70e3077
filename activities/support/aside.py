"""How activities run blocking code of others."""

from collections.abc import Callable
from typing import Protocol, TypeVar

R = TypeVar("R")


class Aside(Protocol):
    """Runs blocking code of others where nobody has to wait for it, even if it never ends."""

    async def __call__(self, call: Callable[[], R]) -> R:
        """What it returns; a cancelled caller leaves it alone."""
        ...
