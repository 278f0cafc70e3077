"""Reads the logs of the services: the last lines, and new ones as they are written."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.foundation.plain_text import lines_of

POLL_S = 0.2
TAIL_BYTES = 64 * 1024
LINES = 5
CHARACTERS = 300
READ_BYTES = 16_384
# The fields of a log line that tell a person what happened.
_TELLING = ("event", "error", "why", "exception")


@dataclass(frozen=True, slots=True)
class LogLine:
    part: str
    text: str


async def read_logs(
    settings: Settings, part: str | None = None, *, lines: int = 50, follow: bool = False
) -> AsyncIterator[LogLine]:
    """The lines of one service's log, or of all (`supervisor`, `temporal`, `model`, `worker`, …).

    Raises:
        NotFound: there is no such log, or none at all.
        NotAllowed: one cannot be read.
    """
    folder = settings.home / "logs"
    names = sorted(path.stem for path in folder.glob("*.log"))
    if part is not None and part not in names:
        cure = f"Choose one of: {', '.join(names)}." if names else "Start with `perdure up`."
        raise NotFound(f"There is no log {part!r} in {folder}.", cure=cure)
    if not names:
        raise NotFound(f"There are no logs in {folder} yet.", cure="Start with `perdure up`.")
    wanted = [part] if part else names
    tails = {name: _Tail(folder / f"{name}.log", name, lines) for name in wanted}
    while True:
        for tail in tails.values():
            for line in tail.more():
                yield line
        if not follow:
            break
        await asyncio.sleep(POLL_S)
        # A first start makes one log after the other, while somebody follows them already.
        for path in sorted(folder.glob("*.log")) if part is None else ():
            tails.setdefault(path.stem, _Tail(path, path.stem))


class _Tail:
    """Reads a growing file from its last lines; a file that has shrunk is read from its start.

    A file that was removed has no lines, and is read from its start when it is there again. One
    without a number of `lines` is new, and is read from its start too.
    """

    def __init__(self, path: Path, part: str, lines: int | None = None) -> None:
        self._path = path
        self._part = part
        self._offset = 0
        if lines is not None:
            with suppress(FileNotFoundError):
                self._offset = _start_of(path, lines)

    def more(self) -> list[LogLine]:
        try:
            with _opened(self._path) as file:
                if file.seek(0, 2) < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                # What follows the last line end is still being written, and is read the next time.
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            self._offset = 0
            return []
        if not newline:
            return []
        self._offset += len(whole) + 1
        text = whole.decode("utf-8", "replace")
        # Not `splitlines`: a line of JSON may hold U+2028, which ends no line.
        return [LogLine(self._part, line) for line in text.split("\n")]


def _opened(path: Path) -> BinaryIO:
    """A log to read; raises `NotAllowed` if it is there and cannot be opened."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NotAllowed(
            f"The log {path} cannot be read: {error.strerror or error}.",
            cure="Let the user read it who runs this command.",
        ) from error


def _start_of(path: Path, lines: int) -> int:
    """Where the last lines of a file begin; what follows its last line end is none yet."""
    # One more, as the end of the last line is not that of the line before the first one.
    wanted = lines + 1
    with _opened(path) as file:
        start = file.seek(0, 2)
        while start > 0:
            size = min(TAIL_BYTES, start)
            start -= size
            file.seek(start)
            block = file.read(size)
            if (ends := block.count(b"\n")) >= wanted:
                place = len(block)
                for _ in range(wanted):
                    place = block.rindex(b"\n", 0, place)
                return start + place + 1
            wanted -= ends
    return 0


def log_end(path: Path) -> int:
    """The size of a log, from which on later lines are new."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def last_words(path: Path, *, since: int = 0) -> str:
    """The last lines of a log after an offset, indented, with JSON lines as words."""
    try:
        with path.open("rb") as file:
            file.seek(max(since, log_end(path) - READ_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    said = [_plain(line) for line in lines_of(text) if line.strip()]
    return "\n".join(f"    {line}" for line in said[-LINES:])


def _plain(line: str) -> str:
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if isinstance(fields, dict):
        told = [str(fields[name]) for name in _TELLING if fields.get(name)]
        line = ": ".join(lines_of(one.strip())[-1] for one in told if one.strip()) or line
    return line if len(line) <= CHARACTERS else f"{line[:CHARACTERS]}…"
