"""A model call in progress: its text for people who watch, and its cost if it gets lost.

Both are written to the store in batches. Neither may fail or delay a paid call.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from perdure.domain.budget.journal import Attempt
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.retry_policies import impatient, no_work
from perdure.domain.llm.usage import Usage
from perdure.domain.ports import RecordStore, UsageSoFar

BATCH_S = 0.2
BATCHES_PER_NOTE = 5
SHOWN_CHARACTERS = 4_000


class LiveText:
    """Collects text deltas and replaces the run's live row; a retry starts it anew."""

    def __init__(
        self,
        records: RecordStore,
        *,
        run: str,
        attempt: Attempt,
        expects: Callable[[Usage | None], Awaitable[None]],
    ) -> None:
        self._expects = expects
        self._used: UsageSoFar | None = None
        self._noted: Usage | None = None
        self._records = records
        self._run = run
        self._attempt = attempt
        self._text = ""
        self._written = ""
        self._writer: asyncio.Task[None] | None = None

    def add(self, delta: str) -> None:
        """Take a text delta."""
        self._text = (self._text + delta)[-SHOWN_CHARACTERS:]

    def answers(self, used: UsageSoFar) -> None:
        """Note that the answer has begun; `used` returns its usage so far."""
        self._used = used

    @property
    def seen(self) -> Usage | None:
        """The usage so far; None before the answer began."""
        return None if self._used is None else self._used()

    async def __aenter__(self) -> Self:
        self._writer = asyncio.ensure_future(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        # The call is over: what the store takes for this is no time of the model's.
        with no_work(asyncio.get_running_loop().time):
            if self._writer is not None:
                self._writer.cancel()
                await asyncio.wait({self._writer})
            if self._written:
                with impatient():
                    await self._quietly(self._records.clear_live_text(self._run))

    async def _write(self) -> None:
        batch = 0
        with impatient():
            while True:
                await asyncio.sleep(BATCH_S)
                await self._show()
                batch += 1
                if batch % BATCHES_PER_NOTE == 0 or self._head_is_new():
                    await self._note()

    async def _show(self) -> None:
        if self._text == self._written:
            return
        self._written = self._text
        attempt = self._attempt
        await self._quietly(
            self._records.set_live_text(self._run, attempt.key, attempt.attempt, self._text)
        )

    def _head_is_new(self) -> bool:
        # What was read from the cache costs a tenth, and only the head of the answer tells.
        seen, noted = self.seen, self._noted
        return bool(seen and seen.prompt_tokens) and not (noted and noted.prompt_tokens)

    async def _note(self) -> None:
        seen = self.seen
        if seen == self._noted:
            return
        self._noted = seen
        await self._quietly(self._expects(seen))

    @staticmethod
    async def _quietly(work: Awaitable[None]) -> None:
        # Neither a viewer's text nor a finer estimate is worth failing a paid call for.
        try:
            await work
        except PerdureError:
            return
