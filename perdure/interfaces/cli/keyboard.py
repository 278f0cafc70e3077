"""Lines that a person types at a terminal, read without holding up what goes on meanwhile.

The terminal stays as it is: it edits the line, echoes it, and turns Ctrl-C into a signal.
"""

import asyncio
import errno
import os
import termios
from typing import TextIO

# The most that a terminal of Linux keeps of one line; the rest of a longer one is lost.
LINE_BYTES = 4_095


class TooLong(Exception):
    """A line that the terminal could not hold."""


class Keyboard:
    """The keys of one terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._fd = stream.fileno()

    @property
    def is_ours(self) -> bool:
        """Whether keys reach this process: a job in the background is stopped if it reads."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError as error:
            return error.errno == errno.ENOTTY  # not the terminal that controls our jobs

    def discard(self) -> None:
        """Forget what was typed and not read, half a line included."""
        if self.is_ours:
            termios.tcflush(self._fd, termios.TCIFLUSH)

    async def line(self) -> str:
        """The next line, without its end.

        Raises:
            EOFError: Ctrl-D, the terminal is gone, or the process went to the background.
            TooLong: more than a terminal keeps of one line.
        """
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, _settle, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._fd)
        if not self.is_ours:
            raise EOFError
        try:
            typed = os.read(self._fd, 2 * LINE_BYTES)
        except OSError as error:
            raise EOFError from error
        if not typed:
            raise EOFError
        if len(typed) >= LINE_BYTES:
            raise TooLong
        return typed.decode(errors="replace").rstrip("\r\n")


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def keyboard_of(stream: TextIO | None) -> Keyboard | None:
    """The keyboard behind a stream; None where nobody types."""
    return Keyboard(stream) if stream is not None and stream.isatty() else None
