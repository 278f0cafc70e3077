"""Shares an answer between callers that ask for the same at the same time."""

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
    """Answers by key, each kept for a moment.

    Args:
        seconds: how old an answer may be.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._kept: dict[Hashable, _Kept[Answer]] = {}

    async def get(self, asked: Hashable, make: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer that is kept or in progress; otherwise make it.

        Args:
            asked: the key; it must hold the caller's permissions, so that nobody gets a foreign
                answer.
            make: makes the answer; its error goes to all who wait, and is not kept.
        """
        self._forget()
        kept = self._kept.get(asked)
        if kept is None:
            until = self._clock() + self._seconds
            kept = _Kept(until, asyncio.ensure_future(make()))
            self._kept[asked] = kept
        try:
            # Shielded: a caller that is cancelled must not cancel the answer for the others.
            return await asyncio.shield(kept.answer)
        except Exception:
            self._kept.pop(asked, None)
            raise

    def _forget(self) -> None:
        now = self._clock()
        # One in progress stays, however old: while it is slow, all who ask would make it again.
        over = [
            asked for asked, kept in self._kept.items() if now >= kept.until and kept.answer.done()
        ]
        for asked in over:
            del self._kept[asked]
