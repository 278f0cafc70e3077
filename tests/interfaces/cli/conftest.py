"""The installation in memory that command tests work with."""

from pathlib import Path

import pytest

from tests.interfaces.cli.memory import Installation


@pytest.fixture
def perdure(tmp_path: Path) -> Installation:
    """A command line over nothing but memory and a temporary folder."""
    return Installation(folder=tmp_path)
