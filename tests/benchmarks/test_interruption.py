"""A measurement that is told to end ends its servers and workers, and says so by its exit code."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.interruption import ENDED, run

MEASURING = """
import asyncio
from pathlib import Path
from benchmarks.interruption import run

async def measure():
    try:
        Path("begun").touch()
        await asyncio.sleep(600)
    finally:
        await asyncio.sleep(0)
        Path("ended").touch()

run(measure())
"""


async def test_sigterm_ends_what_was_started(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    measuring = subprocess.Popen(
        [sys.executable, "-c", MEASURING], cwd=tmp_path, env={"PYTHONPATH": str(root)}
    )
    while not (tmp_path / "begun").exists():
        assert measuring.poll() is None
        await asyncio.sleep(0.02)
    measuring.terminate()
    assert await asyncio.to_thread(measuring.wait) == ENDED
    assert (tmp_path / "ended").exists()


def test_without_a_signal_the_value_or_error_comes_through() -> None:
    async def value() -> int:
        await asyncio.sleep(0)
        return 7

    async def failure() -> int:
        await asyncio.sleep(0)
        raise ValueError("no such part")

    assert run(value()) == 7
    with pytest.raises(ValueError, match="no such part"):
        run(failure())
