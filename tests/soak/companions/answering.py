"""Somebody who answers what runs ask: under so many kills, a step may lose all its attempts."""

import asyncio
from collections import Counter

from temporalio.service import RPCError

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.run.messages import Answer
from perdure.gateway.types import OpenGate
from tests.soak.books import Books
from tests.soak.companions.companion import Around

LOOK_S = 5.0


class Answering:
    """Says `retry` to every run that is blocked, for as long as any run is open."""

    name = "questions"

    def __init__(self, around: Around) -> None:
        self._around = around
        self.did: Counter[str] = Counter()
        self.checked: list[str] = []

    async def go(self) -> None:
        """Answer until it is cancelled."""
        while True:
            try:
                for one in (await self._around.site.gateway.gates()).gates:
                    await self._answer(one)
            except (PerdureError, RPCError):
                pass  # one is away, or a run has just ended; the next look finds the rest
            await asyncio.sleep(LOOK_S)

    async def check(self, books: Books) -> None:
        """Nothing is asked any more."""
        left = (await self._around.site.gateway.gates()).gates
        books.wrong += [f"{one.run} still asks: {one.gate.prompt[:200]}" for one in left]

    async def _answer(self, one: OpenGate) -> None:
        asked = one.gate
        said = Answer(gate=asked.id, choice="retry", by="eve", request_id=f"{one.run} {asked.id}")
        await self._around.site.gateway.verb(one.run, said)
        self.did[f"{asked.kind} answered with retry"] += 1
