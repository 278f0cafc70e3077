"""A newcomer for the tests that walk through pages."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.docs.newcomer import Newcomer, arrived


@pytest.fixture
async def newcomer(tmp_path: Path) -> AsyncIterator[Newcomer]:
    async with arrived(tmp_path) as one:
        yield one
