"""A worker that ends unasked: it is noticed, told in words, and takes its process with it.

Supervisors replace a process that has ended, and not one that lives without polling.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Sequence

from temporalio.worker import Worker

from perdure.domain.foundation.errors import ServiceUnavailable


def nobody_told() -> None:
    """What is told that the serving broke, where the process belongs to somebody else."""


def require_polling(workers: Sequence[Worker], stop: asyncio.Event) -> None:
    """Raise `ServiceUnavailable` if a worker ended while nobody asked it to.

    A worker that ends cancels the task that started it. If that was swallowed, it is found here.
    """
    ended = [worker.task_queue for worker in workers if worker.is_shutdown]
    if ended and not stop.is_set():
        raise no_longer_served(f"The worker of {', '.join(ended)}")


def no_longer_served(what: str) -> ServiceUnavailable:
    """The error of workers that ended unasked."""
    return ServiceUnavailable(
        f"{what} ended, and nobody had asked it to: nothing is polled any more.",
        cure="Start it again; the lines of the log before this one say what ended it.",
    )


def end_in_any_case(after_s: float) -> None:
    """End the process after some seconds, whatever the event loop does until then."""

    def end() -> None:
        sys.stderr.write("The worker ended unasked and could not end its process in order.\n")
        sys.stderr.flush()
        # In a thread `sys.exit` ends that thread alone.
        os._exit(ServiceUnavailable.exit_code)

    # A thread, since what broke may have stopped the event loop too.
    timer = threading.Timer(after_s, end)
    timer.daemon = True
    timer.start()
