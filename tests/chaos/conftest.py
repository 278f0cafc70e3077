"""Fixtures for failure tests: an installation whose model is the provider with a ledger."""

from collections.abc import AsyncIterator

import pytest
from ground import Ground
from ground import unserved as chaos

__all__ = ["chaos"]


@pytest.fixture
async def served(chaos: Ground) -> AsyncIterator[Ground]:
    """The same with a worker inside this process."""
    async with chaos.site.worker():
        yield chaos
