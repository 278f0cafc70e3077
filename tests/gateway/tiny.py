"""Tiny loops that answer the names of the real ones, on a server of their own."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from temporalio import activity, workflow
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.client import Client
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.agent.state import AgentInput
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.run.bookkeeping_messages import ReadyReport
from perdure.domain.run.events import Event
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import AddInput, Answer, EventsQuery, Pause, Receipt, Resume, Stop
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import BudgetStatus, RunStatus, StoredRun
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.gateway import Gateway
from perdure.gateway.types import Waits
from tests.gateway.memory_stores import MemoryBlobs, MemoryJournal, MemoryRecords

ADDRESS = "the test server"
LOOKS = Waits(ready=1, patience=1, query=10, update=30, poll_first=0.05, poll_last=0.2, outage=0.5)
IMPATIENT = replace(LOOKS, query=1, update=1)
TYPES = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
    "Double": IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE,
}
DYNAMIC = (
    "history.transferProcessorMaxPollRPS=2000",
    "history.timerProcessorMaxPollRPS=2000",
    'history.timerProcessorMaxTimeShift="10ms"',
    'history.workflowIdReuseMinimalInterval="0s"',
    "frontend.WorkflowPauseEnabled=true",
)
LIFECYCLE = SearchAttributeKey.for_keyword("PerdureLifecycle")
OUTCOME = SearchAttributeKey.for_keyword("PerdureOutcome")


@workflow.defn(name="AgentLoop")
class TinyLoop:
    """Goes on until it is stopped; its goal says what else it does.

    Goals: `ask` opens a gate, `fail` ends red, `fail newer` with the result of a newer version,
    `twice` continues as new once, `huge` has more records than a return value holds, `broken` fails
    in its own code, `retry` has a step that fails and is tried again.
    """

    @workflow.init
    def __init__(self, given: AgentInput) -> None:
        self._given = given
        self._events: list[Event] = []
        self._paused = False
        self._stopped = False
        self._inputs: list[AddInput] = []
        self._gate: Gate | None = None
        self._ended = False
        self._note("run_started")

    @workflow.run
    async def run(self, given: AgentInput) -> RunResult:
        if given.spec.goal == "ask":
            self._gate = Gate(
                id="g1",
                kind="question",
                prompt="why?",
                choices=("a", "b"),
                opened_at=workflow.now(),
            )
            self._set("waiting")
        if given.spec.goal == "broken":
            raise RuntimeError("the code is broken on purpose")
        if given.spec.goal == "retry":
            workflow.start_activity(
                refused,
                start_to_close_timeout=timedelta(seconds=5),
                retry_policy=RetryPolicy(
                    initial_interval=timedelta(seconds=30), maximum_attempts=3
                ),
            )
        await workflow.wait_condition(lambda: self._stopped)
        result = self._result("failed" if given.spec.goal.startswith("fail") else "stopped")
        self._note("ended")
        self._ended = True
        workflow.upsert_search_attributes([OUTCOME.value_set(result.outcome)])
        self._set("failed" if result.outcome == "failed" else "stopped")
        if result.outcome == "failed":
            told = result.model_dump(mode="json")
            if given.spec.goal == "fail newer":
                told["novelty"] = "of a newer version"
            raise ApplicationError("it broke", told, type="RunFailed")
        return result

    @workflow.signal
    def narrow(self, word: str) -> None:
        """What no handler should be: it takes exactly one text, and none that says `poison`."""
        if word == "poison":
            raise RuntimeError("the handler cannot take this")
        self._inputs.append(AddInput(text=word))

    def _set(self, lifecycle: str) -> None:
        workflow.upsert_search_attributes([LIFECYCLE.value_set(lifecycle)])

    def _note(self, type_: str) -> None:
        self._events.append(
            Event.model_validate(
                {
                    "seq": len(self._events) + 1,
                    "at": workflow.now(),
                    "run": self._given.run,
                    "iteration": 0,
                    "type": type_,
                }
            )
        )

    def _result(self, outcome: str) -> RunResult:
        return RunResult.model_validate(
            {
                "id": self._given.run,
                "kind": "agent",
                "outcome": outcome,
                "reason": "stopped" if outcome == "stopped" else "internal",
                "explanation": "It was told to end.",
                "iterations": (IterationRecord(index=1),),
                "iteration_count": 3 if self._given.spec.goal == "huge" else 1,
                "output_ref": "sha256:whole" if self._given.spec.goal == "huge" else None,
                "output": None,
                "unread_input": tuple(item.text for item in self._inputs),
            }
        )

    @workflow.query
    def status(self) -> RunStatus:
        waits = self._gate is not None and self._gate.open
        return RunStatus(
            id=self._given.run,
            kind="agent",
            goal=self._given.spec.goal,
            lifecycle="paused" if self._paused else "waiting" if waits else "running",
            phase="ended" if self._ended else "executing",
            budget=BudgetStatus(limits=self._given.spec.budget, tokens=7),
        )

    @workflow.query
    def gates(self) -> list[Gate]:
        return [self._gate] if self._gate else []

    @workflow.query
    def events(self, since: EventsQuery) -> list[Event]:
        return [event for event in self._events if event.seq > since.since]

    @workflow.update
    def pause(self, message: Pause) -> Receipt:
        self._paused = True
        self._set("paused")
        self._note("paused")
        return Receipt(verb="pause", lifecycle="paused")

    @pause.validator
    def _check_pause(self, message: Pause) -> None:
        if self._paused:
            raise ApplicationError("the run is paused already", type="NotAllowed")

    @workflow.update
    def resume(self, message: Resume) -> Receipt:
        self._paused = False
        self._set("running")
        self._note("resumed")
        return Receipt(verb="resume", lifecycle="running")

    @workflow.update
    def stop(self, message: Stop) -> Receipt:
        self._stopped = True
        return Receipt(verb="stop", lifecycle="running", note=message.by)

    @workflow.update
    def answer(self, message: Answer) -> Receipt:
        self._gate = None
        return Receipt(verb="answer", lifecycle="running")

    @workflow.update
    def add_input(self, message: AddInput) -> Receipt:
        self._inputs.append(message)
        self._note("input_added")
        return Receipt(
            verb="add_input", lifecycle="running", note=message.ref.hash if message.ref else ""
        )


@activity.defn(name="ready")
async def ready() -> ReadyReport:
    return ReadyReport(version="1", queue=activity.info().task_queue)


@activity.defn(name="refused")
async def refused() -> None:
    raise ApplicationError("The model provider was not reached (connection refused).", "x" * 9_000)


@dataclass
class Site:
    """One installation: its own queues on the shared server, its own stores.

    `impatient` is for a test whose workers stay silent; an answer may take it too long.
    """

    client: Client
    blobs: MemoryBlobs
    records: MemoryRecords
    journal: MemoryJournal
    gateway: Gateway
    impatient: Gateway
    workers: AsyncExitStack

    async def work(self, *, models: bool = True, tools: bool = True) -> None:
        """Start workers on the installation's queues."""
        name = self.records.name
        wanted = {"models": models, "tools": tools}
        queues = [f"perdure-{name}-{part}" for part, is_wanted in wanted.items() if is_wanted]
        await self.workers.enter_async_context(
            Worker(
                self.client,
                task_queue=f"perdure-{name}-loops",
                workflows=[TinyLoop],
                activities=[ready, refused],
                workflow_runner=UnsandboxedWorkflowRunner(),
                max_cached_workflows=0,  # no sticky queue: the next worker takes over at once
            )
        )
        for queue in queues:
            await self.workers.enter_async_context(
                Worker(self.client, task_queue=queue, activities=[ready])
            )

    async def rest(self) -> None:
        """Stop all workers."""
        await self.workers.aclose()


def spec(goal: str = "write a haiku", **more: object) -> AgentSpec:
    return AgentSpec.model_validate(
        {"kind": "agent", "goal": goal, "budget": BudgetLimits(tokens=5_000), **more}
    )


def row(run: str, **more: object) -> StoredRun:
    facts: dict[str, object] = {
        "id": run,
        "kind": "agent",
        "goal": "old",
        "label": None,
        "lifecycle": "running",
        "outcome": None,
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return StoredRun.model_validate(facts | more)
