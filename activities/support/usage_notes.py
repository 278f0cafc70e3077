"""Notes in the journal, while a model call runs, what it costs if its worker is lost.

Neither a store that is slow nor one that fails may fail or delay a paid call.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from perdure.activities.support.heartbeat import to_the_end
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.foundation.retry_policies import count_as_store_time, impatient
from perdure.domain.llm.usage import Usage
from perdure.domain.ports import UsageSoFar

LOOK_EVERY_S = 0.2
LOOKS_PER_NOTE = 5


class UsageNotes:
    """Passes on the usage of one attempt, as the provider tells it."""

    def __init__(self, expects: Callable[[Usage | None], Awaitable[None]]) -> None:
        self._expects = expects
        self._used: UsageSoFar | None = None
        self._noted: Usage | None = None
        self._writer: asyncio.Task[None] | None = None

    def answers(self, used: UsageSoFar) -> None:
        """Note that the answer has begun; `used` returns its usage so far."""
        self._used = used

    @property
    def seen(self) -> Usage | None:
        """The usage so far; None before the answer began, or where it cannot be true."""
        used = None if self._used is None else self._used()
        return used if used is None or used.is_plausible else None

    async def __aenter__(self) -> Self:
        self._writer = asyncio.ensure_future(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        # The call is over: time that the store takes now is not the model's.
        with count_as_store_time(asyncio.get_running_loop().time):
            if self._writer is not None:
                self._writer.cancel()
                # Also if the step is cancelled now: the reply of the call may be in hand already.
                await to_the_end(asyncio.wait({self._writer}))

    async def _write(self) -> None:
        looks = 0
        with impatient():
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                looks += 1
                if looks % LOOKS_PER_NOTE == 0 or self._head_is_new():
                    await self._note()

    def _head_is_new(self) -> bool:
        # Cached tokens cost a tenth, and only the head of the answer says how many there are.
        seen, noted = self.seen, self._noted
        return bool(seen and seen.prompt_tokens) and not (noted and noted.prompt_tokens)

    async def _note(self) -> None:
        seen = self.seen
        if seen == self._noted:
            return
        # Before it is written: a store that fails is not asked again for the same.
        self._noted = seen
        try:
            await self._expects(seen)
        except PerdureError:
            return  # a finer estimate is not worth failing a paid call for
