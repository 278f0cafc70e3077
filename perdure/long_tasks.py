"""How long one workflow task may take before the SDK calls it a deadlock."""

from temporalio.worker import Worker

TASK_S = 8  # below the ten seconds after which the server gives a task to another worker


def allow_long_tasks(worker: Worker) -> None:
    """Give a workflow task most of the server's ten seconds, where the SDK allows two.

    Ten thousand signals that waited for a worker come as one task. They take the SDK itself 0.8 s
    of a quiet core; on a busy one the task would be taken for a deadlock, each time it is tried.
    """
    inner = worker._workflow_worker  # pyright: ignore[reportPrivateUsage]
    if inner is not None and inner._deadlock_timeout_seconds is not None:  # pyright: ignore[reportPrivateUsage]
        inner._deadlock_timeout_seconds = TASK_S  # pyright: ignore[reportPrivateUsage]
