"""The check at the end of all tests finds what was left running."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from leftovers import MARK, end_leftovers, leftovers

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
