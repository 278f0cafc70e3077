"""The file by which a worker tells the supervisor that it polls its queues.

The server's own list of pollers may be a minute old.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from temporalio.client import Client

from perdure.adapters.files.disk import disk_errors
from perdure.adapters.settings.variables import Settings
from perdure.event_log import get_logger

_log = get_logger(__name__)


def withdraw_ready(settings: Settings) -> None:
    """Remove the file of an earlier worker, which survives the restart of a container."""
    if settings.ready_file is not None:
        settings.ready_file.unlink(missing_ok=True)


def announce_ready(settings: Settings) -> None:
    """Write the file once the worker polls; does nothing without a supervisor.

    Raises:
        StoreAway: the disk is full.
    """
    if settings.ready_file is not None:
        with disk_errors():
            # With PostgreSQL a worker may not have created its home folder yet.
            settings.ready_file.parent.mkdir(parents=True, exist_ok=True)
            # Who is ready: a worker that is killed leaves its file to the one that replaces it.
            settings.ready_file.write_text(str(os.getpid()), encoding="utf-8")


def say_what_is_polled(client: Client, queues: Sequence[str], *, default_model: str) -> None:
    """Log once which server and queues a worker polls, and which model is its default."""
    _log.info(
        "worker_polls",
        server=client.service_client.config.target_host,
        namespace=client.namespace,
        queues=list(queues),
        default_model=default_model,
        pid=os.getpid(),
    )


def is_announced(path: Path, pid: int) -> bool:
    """Whether the process with this id has announced itself, or one of its group.

    Services lead a group of their own, and a command of somebody's own may start the worker as its
    child.
    """
    try:
        announced = int(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # the latter while it is written
        return False
    try:
        return announced == pid or os.getpgid(announced) == pid
    except ProcessLookupError:
        return False
