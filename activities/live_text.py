"""The text of a model call in progress, written to the store in batches; advisory only."""

import asyncio
from collections.abc import Awaitable
from typing import Self

from perdure.domain.errors import PerdureError
from perdure.domain.ports import Attempt, RecordStore

BATCH_S = 0.2
SHOWN_CHARACTERS = 4_000


class LiveText:
    """Collects deltas and replaces the run's live row; a retried attempt starts it anew."""

    def __init__(self, records: RecordStore, *, run: str, attempt: Attempt) -> None:
        self._records = records
        self._run = run
        self._attempt = attempt
        self._text = ""
        self._written = ""
        self._writer: asyncio.Task[None] | None = None

    def add(self, delta: str) -> None:
        """Take a text delta."""
        self._text = (self._text + delta)[-SHOWN_CHARACTERS:]

    async def __aenter__(self) -> Self:
        self._writer = asyncio.ensure_future(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait({self._writer})
        if self._written:
            await self._quietly(self._records.clear_live_text(self._run))

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(BATCH_S)
            if self._text != self._written:
                self._written = self._text
                await self._quietly(
                    self._records.set_live_text(
                        self._run, self._attempt.key, self._attempt.attempt, self._text
                    )
                )

    @staticmethod
    async def _quietly(work: Awaitable[None]) -> None:
        # A viewer's text is not worth failing a paid call for.
        try:
            await work
        except PerdureError:
            return
