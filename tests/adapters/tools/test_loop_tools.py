"""How long the tool waits that looks at a loop."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from perdure.adapters.tools import loop_tools
from perdure.adapters.tools.loop_tools import LoopTools
from perdure.domain.run.loop_api import LoopControl

LOOK_S = 0.05


class SlowLoops:
    """Loops that never end; each look at one takes a while."""

    looks = 0

    async def status(self, run: str) -> SimpleNamespace:
        self.looks += 1
        await asyncio.sleep(LOOK_S)
        return SimpleNamespace(id=run, phase="working")


async def test_a_wait_for_the_end_of_a_loop_counts_the_looks_at_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_tools, "LOOKS_EVERY_S", 0.01)
    loops, tools = SlowLoops(), LoopTools()
    tools.serve(cast("LoopControl", loops))
    await tools._ended("r", 4 * LOOK_S)
    assert loops.looks <= 5
