"""Who of a queue is there, from what the server reports of its pollers and workers."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import WorkerStatus
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.api.worker.v1 import WorkerHeartbeat

from perdure.gateway.worker_probe import alive

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNS = WorkerStatus.WORKER_STATUS_RUNNING
LEAVES = WorkerStatus.WORKER_STATUS_SHUTTING_DOWN


def _ago(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(NOW - timedelta(seconds=seconds))
    return stamp


def poller(name: str, seconds: float) -> PollerInfo:
    return PollerInfo(identity=name, last_access_time=_ago(seconds))


def beat(name: str, seconds: float, status: WorkerStatus.ValueType) -> WorkerHeartbeat:
    return WorkerHeartbeat(worker_identity=name, heartbeat_time=_ago(seconds), status=status)


@pytest.mark.parametrize(
    ("pollers", "beats", "found"),
    [
        pytest.param([], [], False, id="nobody-ever"),
        pytest.param([poller("a", 70)], [], True, id="polled-within-one-long-poll"),
        pytest.param([poller("a", 90)], [], False, id="polled-long-ago"),
        pytest.param([poller("a", 200)], [beat("a", 50, RUNS)], True, id="busy-in-every-slot"),
        pytest.param([poller("a", 9)], [beat("a", 5, LEAVES)], False, id="said-goodbye"),
        pytest.param([poller("a", 2)], [beat("a", 5, LEAVES)], True, id="came-back"),
        pytest.param(
            [poller("a", 9), poller("b", 30)], [beat("a", 5, LEAVES)], True, id="another-stays"
        ),
    ],
)
def test_who_is_alive(
    pollers: Sequence[PollerInfo], beats: Sequence[WorkerHeartbeat], found: bool
) -> None:
    assert alive(pollers, beats, now=NOW) is found
