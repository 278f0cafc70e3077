"""Asks many runs the same, a few at once, and stops asking when no worker is there."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from perdure.domain.foundation.errors import NoReadyWorker, PerdureError

Answer = TypeVar("Answer")
Present = Callable[[str], Awaitable[bool]]
"""Whether a worker answers on a queue of workflows."""


class AskMany:
    """Questions to many runs of one queue.

    Each run that does not answer costs the whole wait for it. So once as many in a row were silent
    as are asked at once, the queue itself is asked whether a worker is there; if none is, the runs
    that were not asked yet count as silent too.

    Args:
        queue: of the workflows.
        at_once: how many runs are asked at the same time. The wait for an answer begins when its
            question is sent, so one that waits here is not taken for silent.
        present: asks the queue.
    """

    def __init__(self, queue: str, *, at_once: int, present: Present) -> None:
        self._queue, self._present = queue, present
        self._at_once = at_once
        self._room = asyncio.Semaphore(at_once)
        self._looking = asyncio.Lock()
        self._silent = 0
        self._away = False

    async def ask(self, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask one run.

        Raises:
            NoReadyWorker: it was silent, or was not asked, as no worker is there.
            PerdureError: what the question raises.
        """
        async with self._room:
            if self._away:
                raise NoReadyWorker(
                    "No worker is there, so nothing was sent to it.",
                    cure="Start a worker, then try again.",
                )
            try:
                answer = await question()
            except NoReadyWorker:
                await self._heard_nothing()
                raise
            except PerdureError:
                self._silent = 0  # a refusal is an answer
                raise
            self._silent = 0
            return answer

    async def _heard_nothing(self) -> None:
        self._silent += 1
        async with self._looking:
            if not self._away and self._silent >= self._at_once:
                # Before the answer, so that those that wait for the lock do not ask once more.
                self._silent = 0
                self._away = not await self._present(self._queue)
