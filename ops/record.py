"""Record a command in a terminal of its own and draw what it leaves on the screen as SVG.

python -P ops/record.py docs/pictures/demo.svg -- perdure demo
"""

import argparse
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 96
ROWS = 60
CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b\][^\x07]*\x07|\r\n|[\r\n]")
READ_SIZE = 65_536
COLOURFUL = ("env", "-u", "NO_COLOR", "TERM=xterm-256color", "COLORTERM=truecolor")


class Screen:
    """What a terminal shows, kept as lines with their colours; knows what `rich` sends."""

    def __init__(self) -> None:
        self._lines: list[str] = [""]
        self._row = 0
        self._fresh = False

    def feed(self, text: str) -> None:
        """Take the output of a command."""
        at = 0
        for found in CONTROL.finditer(text):
            self._write(text[at : found.start()])
            self._obey(found)
            at = found.end()
        self._write(text[at:])

    def text(self) -> str:
        """All lines, without the empty ones at the end."""
        return "\n".join(self._lines).rstrip()

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._fresh:
            self._lines[self._row] = ""
            self._fresh = False
        self._lines[self._row] += text

    def _obey(self, found: re.Match[str]) -> None:
        match found.group(2) or found.group(0)[-1]:
            case "\n":
                self._row += 1
                self._fresh = False
                if self._row == len(self._lines):
                    self._lines.append("")
            case "\r":
                self._fresh = True
            case "A":
                self._row = max(0, self._row - int(found.group(1) or 1))
            case "K":
                self._lines[self._row] = ""
            case "m":
                self._write(found.group(0))
            case _:
                pass


def record(command: list[str], *, columns: int) -> tuple[str, int]:
    """Run a command in a pseudo-terminal; returns its screen and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    process = subprocess.Popen(
        [*COLOURFUL, *command],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        close_fds=True,
    )
    os.close(theirs)
    screen = Screen()
    pending = b""
    while chunk := _read(ours):
        pending += chunk
        whole = pending.rpartition(b"\n")  # a control sequence never spans lines
        screen.feed((whole[0] + whole[1]).decode(errors="replace"))
        pending = whole[2]
    screen.feed(pending.decode(errors="replace"))
    return screen.text(), process.wait()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, READ_SIZE)
    except OSError:  # Linux ends a pseudo-terminal this way
        return b""


def drawing(screen: str, *, title: str, columns: int) -> str:
    """The screen as SVG."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen), soft_wrap=False)
    return console.export_svg(title=title, unique_id="perdure")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--columns", type=int, default=COLUMNS)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    screen, code = record(given.command, columns=given.columns)
    title = " ".join(Path(word).name for word in given.command)
    if code != 0:
        sys.stderr.write(f"{screen}\n{title} ended with exit code {code}; nothing was recorded.\n")
        return code
    given.target.parent.mkdir(parents=True, exist_ok=True)
    drawn = drawing(screen, title=title, columns=given.columns)
    given.target.write_text(drawn + "\n", encoding="utf-8")
    sys.stdout.write(f"{given.target}: {len(screen.splitlines())} lines\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
