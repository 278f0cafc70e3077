"""A person at a terminal of their own, with a command line in it."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from waiting import eventually

ROWS, COLUMNS = 40, 120
PATIENCE_S = 90.0


@dataclass
class TypingPerson:
    """What a command shows on a terminal, and the keys that go to it."""

    process: "subprocess.Popen[bytes]"
    keys: int
    shown: bytearray = field(default_factory=bytearray)

    async def sees(self, text: str) -> None:
        """Wait until the terminal shows a text."""
        await eventually(lambda: text.encode() in self._read(), seconds=PATIENCE_S)

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self.keys, text.encode())

    async def ended(self) -> int:
        """Wait for the command's end; returns its exit code."""
        await eventually(
            lambda: (self._read(), self.process.poll())[1] is not None, seconds=PATIENCE_S
        )
        self._read()
        assert self.process.returncode is not None
        return self.process.returncode

    def _read(self) -> bytearray:
        try:
            while some := os.read(self.keys, 65_536):
                self.shown.extend(some)
        except OSError:
            pass  # nothing more for now, or the terminal was left
        return self.shown


@contextmanager
def at_terminal(*words: str, environment: Mapping[str, str]) -> Generator[TypingPerson]:
    """Run the command line with a terminal that controls it: Ctrl-C is a signal there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        # The first thing of a new session: take the terminal as the one that controls it.
        [sys.executable, "-P", "-c", CONTROLLED, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm"},
        start_new_session=True,
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    try:
        yield TypingPerson(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


CONTROLLED = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-P", "-m", "perdure", *sys.argv[1:]])
"""
