"""The logs of the services: the last lines, or following them as they grow."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from perdure.adapters.settings import Settings
from perdure.domain.errors import NotFound

POLL_S = 0.2
TAIL_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class LogLine:
    part: str
    text: str


async def read_logs(
    settings: Settings, part: str | None = None, *, lines: int = 50, follow: bool = False
) -> AsyncIterator[LogLine]:
    """Lines of one part's log or of all (`supervisor`, `temporal`, `model`, `worker`, …).

    Raises:
        NotFound: there is no log of that name, or none at all.
    """
    folder = settings.home / "logs"
    names = sorted(path.stem for path in folder.glob("*.log"))
    if part is not None and part not in names:
        raise NotFound(f"There is no log {part!r} in {folder}.", cure=_which(names))
    if not names:
        raise NotFound(f"There are no logs in {folder} yet.", cure="Start with `perdure up`.")
    tails = [_Tail(folder / f"{name}.log", name) for name in ([part] if part else names)]
    for tail in tails:
        for line in tail.more()[-lines:]:
            yield line
    while follow:
        await asyncio.sleep(POLL_S)
        for tail in tails:
            for line in tail.more():
                yield line


class _Tail:
    """Reads a growing file from near its end; a file that shrank is read anew."""

    def __init__(self, path: Path, part: str) -> None:
        self._path = path
        self._part = part
        self._offset = max(0, path.stat().st_size - TAIL_BYTES)

    def more(self) -> list[LogLine]:
        with self._path.open("rb") as file:
            if file.seek(0, 2) < self._offset:
                self._offset = 0
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        if not newline:
            return []
        self._offset += len(whole) + 1
        text = whole.decode("utf-8", "replace")
        return [LogLine(self._part, line) for line in text.split("\n")]


def _which(names: list[str]) -> str:
    return f"Choose one of: {', '.join(names)}." if names else "Start with `perdure up`."
