"""How a worker tells the supervisor that it polls its queues: it writes one file."""

import os
from pathlib import Path

from perdure.adapters.settings import Settings


def announce_ready(settings: Settings) -> None:
    """Say that the worker polls; without a supervisor this does nothing. Call it once, when up."""
    if settings.ready_file is not None:
        # A worker over PostgreSQL may have made nothing in its home yet.
        settings.ready_file.parent.mkdir(parents=True, exist_ok=True)
        settings.ready_file.write_text(str(os.getpid()), encoding="utf-8")


def is_announced(path: Path, pid: int) -> bool:
    """Whether the process with this id has announced itself."""
    try:
        return path.read_text(encoding="utf-8").strip() == str(pid)
    except FileNotFoundError:
        return False
