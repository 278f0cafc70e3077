"""Probes the workers of a queue with a standalone activity, and reads the server's list of them.

A probe needs a server with standalone activities.
"""

import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import TaskQueueType, WorkerStatus
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.worker.v1 import WorkerHeartbeat
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    GetSystemInfoRequest,
    ListWorkersRequest,
)
from temporalio.client import ActivityFailureError, Client
from temporalio.common import Priority, RetryPolicy
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.names import READY_ACTIVITY
from perdure.domain.run.bookkeeping_messages import ReadyReport

T = TypeVar("T")
# The time limit of a probe whose answer nobody awaits.
ASKED_S = 2.0
REASON_CHARACTERS = 200


class NothingToAskWith(Exception):
    """The server has no standalone activities: it is older than 1.31, or they are off."""


async def probe(client: Client, queue: str, *, seconds: float) -> ReadyReport | None:
    """Ask the workers of a queue to report; None if none did in time.

    Raises:
        NothingToAskWith: the server has no standalone activities.
    """
    wait = timedelta(seconds=seconds)
    try:
        handle = await client.start_activity(
            READY_ACTIVITY,
            id=f"ready-{uuid.uuid4().hex}",
            task_queue=queue,
            result_type=ReadyReport,
            # A probe that nobody takes must not wait in the queue for a worker of later.
            schedule_to_start_timeout=wait,
            start_to_close_timeout=wait,
            retry_policy=RetryPolicy(maximum_attempts=1),
            # Ahead of other waiting work, so that busy workers answer too.
            priority=Priority(priority_key=1),
        )
        return await handle.result()
    except ActivityFailureError:
        return None
    except RPCError as error:
        if error.status == RPCStatusCode.UNIMPLEMENTED:
            raise NothingToAskWith from error
        raise


async def server_time(
    client: Client, queue: str, *, now: Callable[[], datetime]
) -> tuple[datetime, datetime]:
    """Start a probe; returns the server's time when it took it, and our time after that.

    Raises:
        NothingToAskWith: the server has no standalone activities.
    """
    wait = timedelta(seconds=ASKED_S)
    try:
        handle = await client.start_activity(
            READY_ACTIVITY,
            id=f"ready-{uuid.uuid4().hex}",
            task_queue=queue,
            schedule_to_close_timeout=wait,
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        # Before its description is asked for, which would only blur the comparison.
        ended = now()
        return (await handle.describe()).schedule_time, ended
    except RPCError as error:
        if error.status == RPCStatusCode.UNIMPLEMENTED:
            raise NothingToAskWith from error
        raise


async def server_version(client: Client) -> str:
    asked = GetSystemInfoRequest()
    return (await client.workflow_service.get_system_info(asked)).server_version


# An idle worker polls again each minute, and a fully busy one sends a heartbeat each minute.
LIVELY = timedelta(seconds=75)


_LEAVING = frozenset(
    {WorkerStatus.WORKER_STATUS_SHUTTING_DOWN, WorkerStatus.WORKER_STATUS_SHUTDOWN}
)


async def polled(client: Client, queue: str, *, now: datetime) -> bool:
    """Whether a worker that has not shut down polled a queue for steps recently."""
    kind = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
    described = await _described(client, queue, kind)
    return alive(described.pollers, await _heartbeats(client, queue), now=now)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The server's estimate of waiting tasks of one type on a queue, and the recent pollers."""

    tasks: int
    age_s: float
    pollers: frozenset[str]


async def backlog(client: Client, queue: str, *, workflows: bool, now: datetime) -> Backlog:
    """The backlog of a queue's workflow tasks or of its steps."""
    half = "WORKFLOW" if workflows else "ACTIVITY"
    found = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.Value(f"TASK_QUEUE_TYPE_{half}"),
            report_stats=True,
        )
    )
    lately = (one for one in found.pollers if _when(one.last_access_time) >= now - LIVELY)
    return Backlog(
        tasks=found.stats.approximate_backlog_count,
        age_s=found.stats.approximate_backlog_age.ToTimedelta().total_seconds(),
        pollers=frozenset(one.identity for one in lately),
    )


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """A limit that somebody set for the steps of a queue, at the server itself."""

    queue: str
    per_second: float
    by: str
    reason: str

    @property
    def words(self) -> str:
        """What it is, and whose."""
        why = f" ({self.reason})" if self.reason else ""
        by = f" by {self.by}" if self.by else ""
        return (
            f"the queue {self.queue} is limited to {self.per_second:g} tasks a second at the "
            f"Temporal server{by}{why}"
        )

    @property
    def cure(self) -> str:
        """The command that takes it away."""
        return (
            f"`temporal task-queue config set --task-queue {self.queue} --task-queue-type activity "
            "--queue-rps-limit default` takes the limit away."
        )


class Server(Protocol):
    """A connection to the server, with patience and our words for its errors."""

    async def ask(self, request: Callable[[Client], Awaitable[T]]) -> T: ...


async def queue_limit(server: Server, queue: str) -> QueueLimit | None:
    """The limit of a queue's steps (`temporal task-queue config set`); None if there is none."""
    found = await server.ask(
        lambda client: client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=client.namespace,
                task_queue=TaskQueue(name=queue),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
                report_config=True,
            )
        )
    )
    limit = found.config.queue_rate_limit
    if not limit.HasField("rate_limit"):
        return None
    return QueueLimit(
        queue=queue,
        per_second=limit.rate_limit.requests_per_second,
        by=limit.metadata.update_identity,
        reason=" ".join(limit.metadata.reason.split())[:REASON_CHARACTERS],
    )


async def workflow_pollers(client: Client, queue: str, *, now: datetime) -> tuple[str, ...]:
    """The identities of workers that polled a queue for workflow tasks recently."""
    described = await _described(client, queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW)
    oldest = now - LIVELY
    return tuple(
        poller.identity for poller in described.pollers if _when(poller.last_access_time) >= oldest
    )


async def workers_by_build(client: Client, queue: str, *, now: datetime) -> Counter[str]:
    """How many workers of each build polled a queue for workflow tasks recently."""
    described = await _described(client, queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW)
    gone = _gone(await _heartbeats(client, queue))
    return Counter(
        poller.deployment_options.build_id
        for poller in described.pollers
        if _still_there(poller, gone, now=now)
    )


def alive(
    pollers: Iterable[PollerInfo], heartbeats: Sequence[WorkerHeartbeat], *, now: datetime
) -> bool:
    """Whether any worker is still there, by its polls or its heartbeats."""
    oldest = now - LIVELY
    if any(
        beat.status not in _LEAVING and _when(beat.heartbeat_time) >= oldest for beat in heartbeats
    ):
        return True
    gone = _gone(heartbeats)
    return any(_still_there(poller, gone, now=now) for poller in pollers)


def _gone(heartbeats: Iterable[WorkerHeartbeat]) -> dict[str, datetime]:
    """When workers reported their shutdown, by identity."""
    gone: dict[str, datetime] = {}
    for beat in heartbeats:
        if beat.status in _LEAVING:
            at = _when(beat.heartbeat_time)
            gone[beat.worker_identity] = max(at, gone.get(beat.worker_identity, at))
    return gone


def _still_there(poller: PollerInfo, gone: Mapping[str, datetime], *, now: datetime) -> bool:
    at = _when(poller.last_access_time)
    left = gone.get(poller.identity)
    # Another worker may have the identity of one that left before.
    return at >= now - LIVELY and (left is None or at > left)


async def _described(
    client: Client, queue: str, kind: TaskQueueType.ValueType
) -> DescribeTaskQueueResponse:
    return await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
    )


async def _heartbeats(client: Client, queue: str) -> list[WorkerHeartbeat]:
    """The heartbeats of the workers of a queue; empty if the server does not collect them."""
    asked = ListWorkersRequest(
        namespace=client.namespace, query=f"TaskQueue = '{queue}'", page_size=100
    )
    found: list[WorkerHeartbeat] = []
    while True:
        try:
            page = await client.workflow_service.list_workers(asked)
        except RPCError:
            return []
        found += [info.worker_heartbeat for info in page.workers_info]
        if not page.next_page_token:
            return found
        asked.next_page_token = page.next_page_token


def _when(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(tzinfo=UTC)
