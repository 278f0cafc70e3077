"""How a worker tells the supervisor that it polls its queues: it writes one file."""

import os
from collections.abc import Sequence
from pathlib import Path

import structlog
from temporalio.client import Client

from perdure.adapters.files.disk import disk_errors
from perdure.adapters.settings.variables import Settings

_log = structlog.get_logger(__name__)


def withdraw_ready(settings: Settings) -> None:
    """Take back what a worker before this one said: its file outlives a container's restart."""
    if settings.ready_file is not None:
        settings.ready_file.unlink(missing_ok=True)


def announce_ready(settings: Settings) -> None:
    """Say that the worker polls; without a supervisor this does nothing. Call it once, when up.

    Raises:
        StoreAway: the disk has no room even for this.
    """
    if settings.ready_file is not None:
        with disk_errors():
            # A worker over PostgreSQL may have made nothing in its home yet.
            settings.ready_file.parent.mkdir(parents=True, exist_ok=True)
            settings.ready_file.write_text(str(os.getpid()), encoding="utf-8")


def say_what_is_polled(client: Client, queues: Sequence[str], *, default_model: str) -> None:
    """One line of the log, once a worker takes work: from whom, and what it would do it with."""
    _log.info(
        "worker_polls",
        server=client.service_client.config.target_host,
        namespace=client.namespace,
        queues=list(queues),
        default_model=default_model,
        pid=os.getpid(),
    )


def is_announced(path: Path, pid: int) -> bool:
    """Whether the process with this id has announced itself."""
    try:
        return path.read_text(encoding="utf-8").strip() == str(pid)
    except FileNotFoundError:
        return False
