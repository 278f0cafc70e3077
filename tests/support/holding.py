"""Replies of the scripted model that a test holds back, so that no test races against a delay.

For workers inside the test's own process: a reply with `delay_s: HELD` waits until `release`.
"""

import asyncio
from collections.abc import Callable

import pytest
from waiting import eventually

from perdure.adapters.llm import scripted
from perdure.domain.llm.transcript import Block

HELD = 3_600.0


class Holding:
    """Holds replies back, and knows how many wait."""

    def __init__(self) -> None:
        self.waiting = 0
        self._released = asyncio.Event()

    async def begun(self, replies: int = 1) -> None:
        """Wait until so many replies are held: their calls are in flight."""
        await eventually(lambda: self.waiting >= replies)

    def release(self) -> None:
        """Let them go, and all later ones."""
        self._released.set()

    def hold(self) -> None:
        """Hold replies back again, from the next one on."""
        self._released = asyncio.Event()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Hold what the scripted model streams."""
        real = scripted._stream

        async def stream(
            blocks: tuple[Block, ...], delay_s: float, on_text: Callable[[str], None]
        ) -> None:
            if delay_s >= HELD:
                self.waiting += 1
                await self._released.wait()
                delay_s = 0.0
            await real(blocks, delay_s, on_text)

        patch.setattr(scripted, "_stream", stream)


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> Holding:
    """Replies with `delay_s: HELD` wait until the test lets them go."""
    made = Holding()
    made.install(monkeypatch)
    return made
