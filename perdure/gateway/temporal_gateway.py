"""A typed client of the Temporal server, for the gateway.

It decides nothing: it adds time limits, typed answers and Perdure's errors to each call.
"""

import asyncio
import atexit
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TypeVar

from pydantic import BaseModel
from temporalio.api.common.v1 import WorkflowExecution as ExecutionName
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import (
    Priority,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError

from perdure.domain.foundation.errors import (
    NamespaceUnfit,
    NotFound,
    PerdureError,
    ServiceUnavailable,
)
from perdure.domain.foundation.names import WORKFLOW_TYPES
from perdure.domain.foundation.plain_text import cause_in_words
from perdure.domain.foundation.tolerance import read, read_value
from perdure.domain.run.bookkeeping_messages import ReadyReport
from perdure.domain.run.fairness import Turn
from perdure.domain.run.messages import AnyMessage, Receipt
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import LoopInput
from perdure.gateway.diagnostics import RunProblem, listed_trouble, trouble_of
from perdure.gateway.dispatch import Unfetched, unfetched
from perdure.gateway.error_mapping import sentence, translated, unreachable, update_translated
from perdure.gateway.execution_queries import count_of, page_of
from perdure.gateway.types import RUN_FAILED, Waits
from perdure.gateway.worker_probe import Backlog, backlog, polled, probe

T = TypeVar("T")
Connect = Callable[[], Awaitable[Client]]
Prepare = Callable[[Client], Awaitable[None]]

KINDS_BY_TYPE = {workflow: kind for kind, workflow in WORKFLOW_TYPES.items()}
# A server that was silent for so long is not tried again at once, as a command asks several times.
SILENT_S = 2.0
AWAY_KNOWN_S = 10.0
ATTRIBUTE_TRIES = 12
ATTRIBUTE_PAUSE_S = 1.0
SEALED_GOAL = "(sealed with a key or a codec that is not set here)"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """A workflow to start; with `again`, under the id of one that failed."""

    id: str
    kind: str
    queue: str
    input: LoopInput
    summary: str
    memo: Mapping[str, str]
    keywords: Mapping[str, str]
    turn: Turn = field(default_factory=Turn)
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionInfo:
    """What the server knows of one run without asking any worker.

    `ending` is how the execution closed, in the server's words (`completed`, `failed`,
    `terminated`, `canceled`, `timed_out`), or None while it is open. `trouble` is what keeps it
    from moving; in a list it is incomplete. `unfetched` is a task that no worker has fetched, and
    `task_pending` says whether a workflow task is due; lists have neither. `begins_at` is when its
    first task is due, which is after its start where somebody asked for a delay.
    """

    id: str
    execution: str
    kind: str
    ending: str | None
    history_length: int
    started_at: datetime
    closed_at: datetime | None
    facts: Mapping[str, str | int | float]
    memo: Mapping[str, str]
    parent: str | None = None
    trouble: RunProblem | None = None
    unfetched: Unfetched | None = None
    task_pending: bool = False
    begins_at: datetime | None = None

    @property
    def open(self) -> bool:
        """Whether the execution is still open."""
        return self.ending is None

    def text(self, name: str) -> str | None:
        """A search attribute as text."""
        value = self.facts.get(name)
        return None if value is None else str(value)

    def number(self, name: str) -> float | None:
        """A search attribute as a number."""
        value = self.facts.get(name)
        return float(value) if isinstance(value, int | float) else None


class Ended(Exception):
    """A run ended without a result: it was terminated, or its code is broken."""

    def __init__(self, ending: str, why: str) -> None:
        super().__init__(f"{ending}: {why}")
        self.ending = ending
        self.why = why


class TemporalGateway:
    """Connects at first use, so that the store stays readable while the server is away."""

    def __init__(
        self, connect: Connect, *, address: str, waits: Waits, prepare: Prepare | None = None
    ) -> None:
        self._connect = connect
        self._prepare = prepare or as_it_is
        self._address = address
        self._waits = waits
        self._client: Client | None = None
        self._away: tuple[float, PerdureError] | None = None
        self._connecting = asyncio.Lock()

    async def start(self, order: StartRequest) -> bool:
        """Start a workflow; False if its id is or was in use.

        If the namespace lacks the search attributes, they are added first, where that is allowed.
        """
        client = await self._connected()
        for left in reversed(range(ATTRIBUTE_TRIES)):
            try:
                with translated(self._address, namespace=client.namespace):
                    return await _begin(client, order)
            except NamespaceUnfit:
                if not left:
                    raise
                await self._prepare(client)
                # A cluster loads new attributes only every few seconds.
                await asyncio.sleep(0 if left == ATTRIBUTE_TRIES - 1 else ATTRIBUTE_PAUSE_S)
        raise AssertionError("unreachable")

    async def probe(self, queue: str, *, seconds: float) -> ReadyReport | None:
        """Ask the workers of a queue to report; None if none did; raises `NothingToAskWith`."""
        client = await self._connected()
        with translated(self._address):
            return await probe(client, queue, seconds=seconds)

    async def polled(self, queue: str) -> bool:
        """Whether the server has seen workers poll a queue recently."""
        client = await self._connected()
        with translated(self._address):
            return await polled(client, queue, now=datetime.now(UTC))

    async def backlog(self, queue: str, *, workflows: bool = False) -> Backlog:
        """The backlog and the pollers of a queue."""
        client = await self._connected()
        with translated(self._address):
            return await backlog(client, queue, workflows=workflows, now=datetime.now(UTC))

    async def look(self, run: str, execution: str | None = None) -> ExecutionInfo | None:
        """What the server knows of a run or None; the newest execution, unless one is named."""
        handle = await self._handle(run)
        if execution is not None:
            handle = (await self._connected()).get_workflow_handle(run, run_id=execution)
        try:
            with translated(self._address, run=run):
                described, client = await handle.describe(), await self._connected()
                return replace(
                    await _look(described),
                    trouble=await trouble_of(client, described, now=datetime.now(UTC)),
                    task_pending=described.raw_description.HasField("pending_workflow_task"),
                    unfetched=unfetched(described.raw_description, now=datetime.now(UTC)),
                )
        except NotFound:
            return None

    async def query(
        self, run: str, name: str, result_type: type[T], *, given: BaseModel | None = None
    ) -> T:
        """Query a run through its worker.

        Raises:
            NoReadyWorker: no worker answers in time.
            StoreError: this process lacks the key or codec to decrypt the answer.
        """
        handle, wait = await self._handle(run), timedelta(seconds=self._waits.query)
        with translated(self._address, run=run):
            return await handle.query(
                name, args=[given] if given else [], result_type=result_type, rpc_timeout=wait
            )

    async def update(self, run: str, verb: str, message: AnyMessage) -> Receipt:
        """Send a verb and wait for the receipt.

        Raises:
            NotAllowed: the validator refused it; the message is only its reason.
            NoReadyWorker: no worker took it in time.
            NotFound: the server has no open run with that id.
            StoreError: this process lacks the key or codec to decrypt the answer.
        """
        handle = await self._handle(run)
        with update_translated(run, verb), translated(self._address, run=run):
            return await handle.execute_update(
                verb,
                message,
                id=message.request_id,
                result_type=Receipt,
                rpc_timeout=timedelta(seconds=self._waits.update),
            )

    async def outcome(self, run: str) -> RunResult:
        """Wait for the result of a run; raises `Ended` if it left none."""
        handle = (await self._connected()).get_workflow_handle(run, result_type=RunResult)
        with translated(self._address, run=run):
            try:
                return await handle.result()
            except WorkflowFailureError as error:
                return _result_of_failure(error)

    async def page(
        self, query: str, *, limit: int, cursor: bytes | None = None
    ) -> tuple[list[ExecutionInfo], bytes | None]:
        """One page of a visibility query, and the token of the next one."""
        client = await self._connected()
        with translated(self._address, namespace=client.namespace):
            pages = await page_of(client, query, limit=limit, cursor=cursor)
            found = [await _look(execution) for execution in pages.current_page or ()]
        return found, pages.next_page_token or None

    async def count(self, query: str) -> int:
        """How many executions a visibility query finds."""
        client = await self._connected()
        with translated(self._address, namespace=client.namespace):
            return await count_of(client, query)

    async def delete(self, run: str, execution: str) -> None:
        """Delete one execution with its history; the server does so a moment later."""
        client = await self._connected()
        with translated(self._address, run=run):
            await client.workflow_service.delete_workflow_execution(
                DeleteWorkflowExecutionRequest(
                    namespace=client.namespace,
                    workflow_execution=ExecutionName(workflow_id=run, run_id=execution),
                )
            )

    async def history(self, run: str) -> str:
        """The history of the newest execution as JSON."""
        handle = await self._handle(run)
        with translated(self._address, run=run):
            return (await handle.fetch_history()).to_json()

    async def client(self) -> Client:
        """The connected client, for the gateway's own parts; raises `ServiceUnavailable`."""
        return await self._connected()

    def translated(self) -> AbstractContextManager[None]:
        """Raise Perdure's errors in place of the client's."""
        return translated(self._address)

    async def _handle(self, run: str) -> "WorkflowHandle[object, object]":
        return (await self._connected()).get_workflow_handle(run)

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is None:
                self._client = await self._first_client()
                pause_at_exit()
            return self._client

    async def _first_client(self) -> Client:
        """Connect; if the server was silent a moment ago, raise the same error at once."""
        began = time.monotonic()
        if self._away is not None and began < self._away[0]:
            raise self._away[1]
        try:
            return await self._connect()
        except ServiceUnavailable as error:
            self._remember(began, error)
            raise
        except (RuntimeError, RPCError, OSError) as error:
            why = cause_in_words(error, otherwise="the connection failed")
            away = unreachable(self._address, why)
            self._remember(began, away)
            raise away from error

    def _remember(self, began: float, error: PerdureError) -> None:
        if (now := time.monotonic()) - began >= SILENT_S:
            self._away = (now + AWAY_KNOWN_S, error)


@cache
def pause_at_exit() -> None:
    """Have this process pause before it exits: right after a client or replayer it may crash."""
    atexit.register(time.sleep, 0.2)  # measured: 6 crashes in 50 exits without it, none with it


async def as_it_is(client: Client) -> None:
    """Prepare nothing: the namespace stays as it is."""


async def _begin(client: Client, order: StartRequest) -> bool:
    reuse = WorkflowIDReusePolicy
    try:
        await client.start_workflow(
            WORKFLOW_TYPES[order.kind],
            order.input,
            id=order.id,
            task_queue=order.queue,
            static_summary=order.summary,
            memo=dict(order.memo),
            search_attributes=_keywords(order.keywords),
            # Activities and child workflows inherit the priority.
            priority=Priority(priority_key=order.turn.priority, fairness_key=order.turn.fairness),
            id_reuse_policy=reuse.ALLOW_DUPLICATE_FAILED_ONLY
            if order.again
            else reuse.REJECT_DUPLICATE,
        )
    except WorkflowAlreadyStartedError:
        return False
    return True


def _keywords(values: Mapping[str, str]) -> TypedSearchAttributes:
    keyword = SearchAttributeKey.for_keyword
    return TypedSearchAttributes(
        [SearchAttributePair(keyword(name), value) for name, value in values.items()]
    )


async def _look(execution: WorkflowExecution) -> ExecutionInfo:
    memo, ending = await _memo(execution), _ending(execution.status)
    facts: dict[str, str | int | float] = {}
    for pair in execution.typed_search_attributes:
        if isinstance(pair.value, str | int | float):
            facts[pair.key.name] = pair.value
    return ExecutionInfo(
        id=execution.id,
        execution=execution.run_id,
        kind=KINDS_BY_TYPE.get(execution.workflow_type, execution.workflow_type),
        ending=ending,
        history_length=execution.history_length,
        started_at=execution.start_time,
        closed_at=execution.close_time,
        facts=facts,
        memo={name: value for name, value in memo.items() if isinstance(value, str)},
        parent=execution.parent_id,
        trouble=None if ending else listed_trouble(execution),
        begins_at=execution.execution_time,
    )


async def _memo(execution: WorkflowExecution) -> Mapping[str, object]:
    """The memo of a run, perhaps a client's own; a sealed one must not make a whole list fail."""
    try:
        return await execution.memo()
    except (KeyError, PerdureError):
        return {"goal": SEALED_GOAL}


def _ending(status: WorkflowExecutionStatus | None) -> str | None:
    if status is None or status == WorkflowExecutionStatus.RUNNING:
        return None
    return status.name.lower()


def _result_of_failure(error: WorkflowFailureError) -> RunResult:
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == RUN_FAILED and cause.details:
        given = cause.details[0]
        if isinstance(given, str):
            return read(RunResult, given)
        return read_value(RunResult, given)  # a worker of a newer version may have ended it
    raise Ended(type(cause).__name__.removesuffix("Error").lower(), sentence(cause)) from error
