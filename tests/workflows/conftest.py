"""Fixtures for tests of the loops: `probe` has tools of its own, `holding` holds replies back."""

from collections.abc import AsyncIterator

import pytest
from holding import holding
from installation import Installation

__all__ = ["holding"]


@pytest.fixture
async def probe(bare: Installation) -> AsyncIterator[Installation]:
    """An installation whose worker offers the tools of `tests/support/probe_tools.py`."""
    async with bare.worker(plugins=("probe_tools",)):
        yield bare
