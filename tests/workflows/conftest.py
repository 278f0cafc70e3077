"""Fixture for tests of the loops that need tools of their own: `probe`."""

from collections.abc import AsyncIterator

import pytest
from installation import Installation


@pytest.fixture
async def probe(bare: Installation) -> AsyncIterator[Installation]:
    """An installation whose worker offers the tools of `tests/support/probe_tools.py`."""
    async with bare.worker(plugins=("probe_tools",)):
        yield bare
