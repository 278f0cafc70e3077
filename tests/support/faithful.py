"""Replay that also compares what is said, not only which commands are sent.

The SDK's replayer matches commands by kind, type and id. Here every activity argument and every
input of a continued run is compared with the recorded one as well.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NoReturn

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowHistory
from temporalio.worker import (
    ContinueAsNewInput,
    Interceptor,
    Replayer,
    StartActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from temporalio.workflow import ActivityHandle

from perdure.adapters.converting import data_converter
from perdure.domain.errors import PerdureError
from perdure.domain.refine.state import RefineInput
from perdure.domain.state import AgentInput
from perdure.worker import WORKFLOWS, workflow_runner

SAID: list[tuple[str, Sequence[Any]]] = []
INPUTS: Mapping[str, type[BaseModel]] = {"AgentLoop": AgentInput, "RefineLoop": RefineInput}


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> ActivityHandle[Any]:
        SAID.append((input.activity, tuple(_json(arg) for arg in input.args)))
        return super().start_activity(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        SAID.append(("continue as new", tuple(_json(arg) for arg in input.args)))
        super().continue_as_new(input)


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class Listening(Interceptor):
    """Hears what a replayed workflow says."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,
    ) -> type[WorkflowInboundInterceptor]:
        return _Inbound


def _json(value: object) -> Any:
    payload = data_converter(None).payload_converter.to_payloads([value])[0]
    return json.loads(payload.data)


async def problems(histories: Mapping[str, bytes]) -> AsyncIterator[tuple[str, str | None]]:
    """Replay each history, and tell where this code departs from it."""
    replayer = Replayer(
        workflows=list(WORKFLOWS),
        workflow_runner=workflow_runner(),
        data_converter=data_converter(None),
        interceptors=[Listening()],
        workflow_failure_exception_types=[PerdureError],
    )
    for name, content in histories.items():
        SAID.clear()
        history = WorkflowHistory.from_json(name, content.decode())
        done = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        if done.replay_failure is not None:
            yield name, f"{done.replay_failure}"[:400]
        else:
            yield name, _difference(history)


def _difference(history: WorkflowHistory) -> str | None:
    kind = history.events[0].workflow_execution_started_event_attributes.workflow_type.name
    recorded = list(_recorded(history, kind))
    for number, (then, now) in enumerate(zip(recorded, SAID, strict=False)):
        if then != now:
            return f"step {number}: recorded {str(then)[:600]}, now {str(now)[:600]}"
    if len(recorded) != len(SAID):
        return f"{len(recorded)} steps were recorded, now there are {len(SAID)}"
    return None


def _recorded(history: WorkflowHistory, kind: str) -> Sequence[tuple[str, Sequence[Any]]]:
    found: list[tuple[str, Sequence[Any]]] = []
    for event in history.events:
        scheduled = event.activity_task_scheduled_event_attributes
        rolled = event.workflow_execution_continued_as_new_event_attributes
        if scheduled.activity_type.name:
            name = scheduled.activity_type.name
            found.append((name, tuple(_read(payload) for payload in scheduled.input.payloads)))
        elif rolled.new_execution_run_id:
            # A state that was written before a field existed is read with its default.
            model = INPUTS[kind]
            states = [model.model_validate_json(one.data) for one in rolled.input.payloads]
            found.append(("continue as new", tuple(_json(state) for state in states)))
    return found


def _read(payload: Payload) -> Any:
    return json.loads(payload.data)
