"""What a service said last, for an error message: of this start alone, and briefly."""

import json
from pathlib import Path

LINES = 5
CHARACTERS = 300
READ_BYTES = 16_384
# Fields of a log line that say what happened; the rest is for machines.
_TELLING = ("event", "error", "why", "exception")


def log_end(path: Path) -> int:
    """Where a log ends now; what is said from here on is new."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def last_words(path: Path, *, since: int = 0, lines: int = LINES) -> str:
    """The last lines of a log after a place in it, indented; JSON lines in words."""
    try:
        with path.open("rb") as file:
            file.seek(max(since, log_end(path) - READ_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    said = [_plain(line) for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in said[-lines:])


def _plain(line: str) -> str:
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if isinstance(fields, dict):
        told = [str(fields[name]) for name in _TELLING if fields.get(name)]
        line = ": ".join(one.strip().splitlines()[-1] for one in told if one.strip()) or line
    return line if len(line) <= CHARACTERS else f"{line[:CHARACTERS]}…"
