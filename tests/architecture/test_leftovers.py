"""The check at the end of all tests finds what was left running."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from leftovers import MARK, end_leftovers, leftovers
from waiting import eventually

ROOT = Path(__file__).parents[2]
WAITS = "import signal; signal.pause()"


@contextmanager
def running(*words: str, **environment: str) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", WAITS, *words]
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_children_inherit_the_mark() -> None:
    with running(**os.environ) as process:
        assert process.pid in {one.process.pid for one in leftovers(os.environ[MARK])}


@pytest.mark.parametrize("place", ["environment", "command"])
def test_what_is_left_is_killed_and_told(tmp_path: Path, place: str) -> None:
    folder = str(tmp_path)
    given = {"PERDURE_HOME": folder} if place == "environment" else {}
    with running(*([] if given else [f"--db={folder}/x"]), **given) as process:
        (left,) = end_leftovers(folder, within_s=0)
        assert str(left).startswith(f"{process.pid}: {sys.executable}")
        assert process.wait() != 0
    assert not end_leftovers(folder)


TESTS = """
import subprocess, sys, time
from pathlib import Path

def test_that_lasts():
    started = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    Path("started").write_text(str(started.pid))
    time.sleep(600)
"""


@pytest.mark.long
@pytest.mark.parametrize("at_once", ["0", "2"], ids=["in one process", "in several"])
async def test_tests_that_are_ended_from_outside_leave_nothing(
    tmp_path: Path, at_once: str
) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "test_lasting.py").write_text(TESTS)
    words = (sys.executable, "-P", "-m", "pytest", "-n", at_once, "--rootdir", str(tmp_path))
    support = {"PYTHONPATH": str(ROOT / "tests/support")}
    with subprocess.Popen(words, cwd=tmp_path, env={**os.environ, **support}) as process:
        started = tmp_path / "started"
        await eventually(lambda: started.exists() and started.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait() == pytest.ExitCode.TESTS_FAILED
    assert not psutil.pid_exists(int(started.read_text()))
