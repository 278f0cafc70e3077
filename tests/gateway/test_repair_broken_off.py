"""A repair that is broken off: what people sent stays in the run, or is named."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent, WorkflowExecutionSignaledEventAttributes
from temporalio.api.workflowservice.v1 import (
    ResetWorkflowExecutionRequest,
    SignalWorkflowExecutionRequest,
)

from perdure.domain.foundation.errors import NoReadyWorker, NotAllowed, ServiceUnavailable
from perdure.gateway import repair
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.run_problem import FAILING, RunProblem
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import QueueState

FAILS = RunProblem(mark=f"{FAILING}x", found="it fails", cure="repair it")
RUN = ExecutionInfo(
    id="run", execution="e", kind="agent", ending=None, history_length=5, facts={}, memo={},
    started_at=datetime(2026, 1, 1, tzinfo=UTC), closed_at=None, queue="loops",
)  # fmt: skip
MESSAGES = ["poison", "add_input", "answer"]


def _signal(name: str) -> HistoryEvent:
    return HistoryEvent(
        event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
        workflow_execution_signaled_event_attributes=WorkflowExecutionSignaledEventAttributes(
            signal_name=name
        ),
    )


class Server:
    """One run; a reset leaves its signals out. `on_send` is called before a signal is taken."""

    def __init__(
        self, *, after_reset: ExecutionInfo, on_send: Callable[[str], object] = str
    ) -> None:
        self.info = replace(RUN, trouble=FAILS)
        self.after_reset, self.on_send = after_reset, on_send
        completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        self.events = [HistoryEvent(event_id=1, event_type=completed), *map(_signal, MESSAGES)]
        self.workflow_service = self
        self.namespace = "default"

    async def look(self, _run: str) -> ExecutionInfo:
        return self.info

    async def client(self) -> "Server":
        return self

    def translate_errors(self) -> nullcontext[None]:
        return nullcontext()

    def get_workflow_handle(self, *_: object, **__: object) -> "Server":
        return self

    async def fetch_history(self) -> "Server":
        return self

    async def describe(self) -> SimpleNamespace:
        return SimpleNamespace(raw_description=SimpleNamespace(pending_activities=[]))

    async def reset_workflow_execution(self, _asked: ResetWorkflowExecutionRequest) -> None:
        self.events = self.events[:1]
        self.info = self.after_reset

    async def signal_workflow_execution(self, asked: SignalWorkflowExecutionRequest) -> None:
        self.on_send(asked.signal_name)
        self.events.append(_signal(asked.signal_name))

    @property
    def kept(self) -> list[str]:
        """The signals of its history."""
        sent = [one.workflow_execution_signaled_event_attributes for one in self.events[1:]]
        return [one.signal_name for one in sent]


async def _repair(server: Server, *, worker: bool = True) -> None:
    async def ask(state: QueueState) -> QueueState:
        return state.model_copy(update={"ready": worker, "cure": "Start one."})

    await repair.Repairing(server=cast(TemporalGateway, server), ask=ask).repair("run")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "PAUSE_S", 0)


async def test_without_a_worker_nothing_is_changed() -> None:
    server = Server(after_reset=RUN)
    with pytest.raises(NoReadyWorker, match=r"queue loops of the run run\. Nothing was changed"):
        await _repair(server, worker=False)
    assert server.kept == MESSAGES and server.info.trouble


@pytest.mark.parametrize(
    ("after_reset", "why"),
    [
        pytest.param(replace(RUN, task_pending=True), "No worker takes", id="the worker is gone"),
        pytest.param(replace(RUN, trouble=FAILS), "last sound task", id="the code cannot go on"),
    ],
)
async def test_messages_that_were_not_tried_stay_in_the_run(
    after_reset: ExecutionInfo, why: str
) -> None:
    server = Server(after_reset=after_reset)
    with pytest.raises(NotAllowed, match=why):
        await _repair(server)
    assert server.kept == MESSAGES


async def test_a_server_that_is_away_for_a_moment_costs_no_message() -> None:
    away = ["answer", "answer"]

    def on_send(name: str) -> None:
        if name in away:
            away.remove(name)
            raise ServiceUnavailable("The server is away.")

    server = Server(after_reset=RUN, on_send=on_send)
    with pytest.raises(ServiceUnavailable, match=r"^The server is away\.$"):
        await _repair(server)
    assert server.kept == MESSAGES


async def test_a_reset_whose_answer_is_lost_costs_no_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, asked = Server(after_reset=RUN), list[str]()
    reset = server.reset_workflow_execution

    async def unheard(request: ResetWorkflowExecutionRequest) -> None:
        asked.append(request.request_id)
        if len(asked) == 1:
            await reset(request)
            raise ServiceUnavailable("The server is away.")

    monkeypatch.setattr(server, "reset_workflow_execution", unheard)
    await _repair(server)
    assert server.kept == MESSAGES
    assert asked == [asked[0]] * 2, "the server can tell that it is the same"


async def test_messages_that_cannot_be_sent_again_are_named() -> None:
    def on_send(name: str) -> None:
        if name == "poison":
            server.info = replace(RUN, trouble=FAILS)
        else:
            raise ServiceUnavailable("The server is away.", cure="Start it.")

    server = Server(after_reset=RUN, on_send=on_send)
    with pytest.raises(ServiceUnavailable) as caught:
        await _repair(server)
    assert caught.value.message == (
        "The server is away. Left out, because the code cannot take them: poison. Not sent again: "
        "add_input; answer."
    )
    assert caught.value.cure == "Start it. Send anew what the run has to know."
