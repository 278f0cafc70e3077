"""Which attempts free their run, and that no refusal of the server stops one."""

from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import ApplicationFailureInfo, Failure, TimeoutFailureInfo
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from perdure.fleet.freed_runs import FreedRuns

HEARTBEAT = TimeoutType.TIMEOUT_TYPE_HEARTBEAT
START = TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE
QUEUE = TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START


@dataclass
class _Server:
    """A server with one pending step, which notes what it is asked."""

    failure: Failure
    step: str = "s7"
    refuses: bool = False
    asked: list[str] = field(default_factory=list)
    namespace: str = "default"

    @property
    def workflow_service(self) -> "_Server":
        return self

    async def describe_workflow_execution(self, *_: object, **__: object) -> object:
        self.asked.append("describe")
        if self.refuses:
            raise RPCError("not for you", RPCStatusCode.PERMISSION_DENIED, b"")
        pending = PendingActivityInfo(activity_id=self.step, last_failure=self.failure)
        return DescribeWorkflowExecutionResponse(pending_activities=[pending])

    async def reset_sticky_task_queue(self, *_: object, **__: object) -> None:
        self.asked.append("free")


class _Body(ActivityInboundInterceptor):
    def __init__(self) -> None:
        pass

    async def execute_activity(self, input: ExecuteActivityInput) -> object:
        return "done"


async def _attempt(server: _Server, *, number: int = 2) -> list[str]:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=number, activity_id="s7")
    step = FreedRuns(cast(Client, server)).intercept_activity(_Body())
    given = ExecuteActivityInput(fn=print, args=(), executor=None, headers={})
    assert await environment.run(step.execute_activity, given) == "done"
    return server.asked


def _late(kind: "TimeoutType.ValueType") -> Failure:
    return Failure(timeout_failure_info=TimeoutFailureInfo(timeout_type=kind))


@pytest.mark.parametrize("kind", [HEARTBEAT, START])
async def test_the_attempt_after_a_lost_one_frees_the_run(kind: "TimeoutType.ValueType") -> None:
    assert await _attempt(_Server(_late(kind))) == ["describe", "free"]


async def test_a_first_attempt_asks_nothing() -> None:
    assert await _attempt(_Server(_late(HEARTBEAT)), number=1) == []


@pytest.mark.parametrize(
    "failure", [_late(QUEUE), Failure(application_failure_info=ApplicationFailureInfo()), Failure()]
)
async def test_no_other_failure_frees_it(failure: Failure) -> None:
    assert await _attempt(_Server(failure)) == ["describe"]


async def test_nor_does_a_lost_attempt_of_another_step() -> None:
    assert await _attempt(_Server(_late(HEARTBEAT), step="s6")) == ["describe"]


async def test_a_server_that_refuses_stops_no_step() -> None:
    assert await _attempt(_Server(_late(HEARTBEAT), refuses=True)) == ["describe"]
