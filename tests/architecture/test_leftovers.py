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


LASTING = """
import subprocess, sys, time
from pathlib import Path

def test_that_lasts():
    started = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    Path("started").write_text(str(started.pid))
    time.sleep(600)
"""
FAILING = """
def test_that_fails():
    assert False, "why it failed"

def test_after_it():
    pass
"""
LIMITED = """
import asyncio, pytest

cleared = []

@pytest.mark.timeout(1)
async def test_that_lasts():
    try:
        await asyncio.sleep(600)
    finally:
        cleared.append("what it started")

async def test_after_it():
    assert cleared == ["what it started"]
    assert len(asyncio.all_tasks()) == 1
"""
UNSHOWN = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call):
    report = yield
    if call.excinfo:
        raise SystemError("it cannot be shown")
    return report
"""


def run_apart(folder: Path, at_once: str, text: str, plugin: str = "") -> subprocess.Popen[str]:
    """Run tests in a folder of their own, with the hooks that all tests have, and a plugin's."""
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text(encoding="utf-8"))
    (folder / "test_apart.py").write_text(text)
    (folder / "plugin_apart.py").write_text(plugin)
    words = ["-m", "pytest", "-n", at_once, "-p", "plugin_apart", "-p", "no:randomly"]
    places = f"{ROOT / 'tests/support'}{os.pathsep}{folder}"
    return subprocess.Popen(
        [sys.executable, "-P", *words, "--rootdir", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": places},
        stdout=subprocess.PIPE,
        text=True,
    )


in_one_and_several = pytest.mark.parametrize(
    "at_once", ["0", "2"], ids=["in one process", "in several"]
)


@pytest.mark.long
@in_one_and_several
async def test_tests_that_are_ended_from_outside_leave_nothing(
    tmp_path: Path, at_once: str
) -> None:
    with run_apart(tmp_path, at_once, LASTING) as process:
        started = tmp_path / "started"
        await eventually(lambda: started.exists() and started.read_text())
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == pytest.ExitCode.TESTS_FAILED
    # It was killed by then; the system takes its time to remove it.
    await eventually(lambda: not psutil.pid_exists(int(started.read_text())))


@pytest.mark.long
@in_one_and_several
def test_a_failure_that_cannot_be_shown_ends_no_other_test(tmp_path: Path, at_once: str) -> None:
    with run_apart(tmp_path, at_once, FAILING, UNSHOWN) as process:
        told, _ = process.communicate()
    assert "1 failed, 1 passed" in told, told
    assert "why it failed" in told


@pytest.mark.long
def test_a_test_that_its_limit_ends_does_not_go_on(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_test_loop_scope = session\n"
    )
    with run_apart(tmp_path, "0", LIMITED) as process:
        told, _ = process.communicate()
    assert "1 failed, 1 passed" in told, told
