"""Answers that many ask for at the same time: made once for all who may see the same."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Answer]):
    until: float
    answer: "asyncio.Future[Answer]"


class Shared(Generic[Answer]):
    """Answers by what was asked; each is kept for a moment.

    Args:
        seconds: how old an answer may be.
        clock: seconds that only grow.
    """

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._kept: dict[Hashable, _Kept[Answer]] = {}

    async def get(self, asked: Hashable, make: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer that is kept or being made; else it is made.

        Args:
            asked: tells apart what must not be mixed up, with the sight of who asks.
            make: what it raises, all are told who wait for it; nothing of that is kept.
        """
        self._forget()
        kept = self._kept.get(asked)
        if kept is None:
            until = self._clock() + self._seconds
            kept = _Kept(until, asyncio.ensure_future(make()))
            self._kept[asked] = kept
        try:
            # Who leaves does not take the answer away from the others.
            return await asyncio.shield(kept.answer)
        except Exception:
            self._kept.pop(asked, None)
            raise

    def _forget(self) -> None:
        now = self._clock()
        over = [
            asked for asked, kept in self._kept.items() if now >= kept.until and kept.answer.done()
        ]
        for asked in over:
            del self._kept[asked]
