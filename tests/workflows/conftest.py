"""Fixtures for tests of the loops: `probe` has tools of its own, `holding` holds replies back."""

from collections.abc import AsyncIterator

import pytest
from holding import Holding
from installation import Installation


@pytest.fixture
async def probe(bare: Installation) -> AsyncIterator[Installation]:
    """An installation whose worker offers the tools of `tests/support/probe_tools.py`."""
    async with bare.worker(plugins=("probe_tools",)):
        yield bare


@pytest.fixture
def holding(monkeypatch: pytest.MonkeyPatch) -> Holding:
    """Replies with `delay_s: HELD` wait until the test lets them go."""
    made = Holding()
    made.install(monkeypatch)
    return made
