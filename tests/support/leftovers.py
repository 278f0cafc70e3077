"""Processes that tests started and did not end: told by a mark that children inherit.

A service may get an environment of its own; then its command line, or its home folder, names the
folder of the tests.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import psutil

MARK = "TESTS_STARTED_IT"
ENDS_WITHIN_S = 20.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process that should have ended."""

    process: psutil.Process
    command: str

    def __str__(self) -> str:
        return f"{self.process.pid}: {self.command}"


def mark_children() -> None:
    """Mark every process that is started from here on, with a mark of this session alone.

    Tests that run tests mark what is theirs anew.
    """
    os.environ[MARK] = uuid4().hex


def leftovers(*marks: str) -> list[Leftover]:
    """Living processes, other than this one, whose environment or command names a mark."""
    found: list[Leftover] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            command = process.cmdline()
            words = [*command, *process.environ().values()]
            if any(mark in word for word in words for mark in marks):
                found.append(Leftover(process, " ".join(command)[:200]))
    return found


def end_leftovers(*marks: str, within_s: float = ENDS_WITHIN_S) -> Sequence[Leftover]:
    """Wait for what is just ending, kill the rest, and return it."""
    left: Sequence[Leftover] = ()
    for left in _looks(marks, within_s):
        if not left:
            return ()
    for one in left:
        with contextlib.suppress(psutil.Error):
            one.process.kill()
    return left


def _looks(marks: Sequence[str], within_s: float) -> Iterator[list[Leftover]]:
    deadline = time.monotonic() + within_s
    yield leftovers(*marks)
    while time.monotonic() < deadline:
        time.sleep(POLL_S)
        yield leftovers(*marks)
