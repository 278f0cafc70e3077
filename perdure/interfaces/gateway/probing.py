"""Asking the workers of a queue who they are: a standalone activity, where the server has those.

With `server`, `faults`, `dispatch`, `pollers` and `troubles`, all that calls the Temporal client.
"""

import uuid
from datetime import timedelta

from temporalio.client import ActivityFailureError, Client
from temporalio.common import Priority, RetryPolicy
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.names import READY_ACTIVITY
from perdure.domain.steps import ReadyReport


class NothingToAskWith(Exception):
    """The server runs no standalone activities: before 1.31 it has none, there they are off."""


async def probe(client: Client, queue: str, *, seconds: float) -> ReadyReport | None:
    """Ask whether somebody works on a queue; None when nobody took the question in time.

    Raises:
        NothingToAskWith: the server cannot put the question.
    """
    wait = timedelta(seconds=seconds)
    try:
        handle = await client.start_activity(
            READY_ACTIVITY,
            id=f"ready-{uuid.uuid4().hex}",
            task_queue=queue,
            result_type=ReadyReport,
            schedule_to_start_timeout=wait,
            start_to_close_timeout=wait,
            retry_policy=RetryPolicy(maximum_attempts=1),
            # Ahead of the work that waits: a busy worker is a worker.
            priority=Priority(priority_key=1),
        )
        return await handle.result()
    except ActivityFailureError:
        return None
    except RPCError as error:
        if error.status == RPCStatusCode.UNIMPLEMENTED:
            raise NothingToAskWith from error
        raise
