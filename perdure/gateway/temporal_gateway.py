"""A typed client of the Temporal server, for the gateway.

It decides nothing: it adds time limits, typed answers and Perdure's errors to each call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from pydantic import BaseModel
from temporalio.api.common.v1 import WorkflowExecution as ExecutionName
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import (
    Priority,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.exceptions import TimeoutError as RunTimedOut

from perdure.domain.foundation.errors import (
    NamespaceUnfit,
    NotFound,
)
from perdure.domain.foundation.names import WORKFLOW_TYPES
from perdure.domain.foundation.tolerance import read, read_value
from perdure.domain.run.bookkeeping_messages import ReadyReport
from perdure.domain.run.fairness import Turn
from perdure.domain.run.messages import AnyMessage, Receipt
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import LoopInput
from perdure.gateway.diagnostics import trouble_of
from perdure.gateway.dispatch import unfetched
from perdure.gateway.error_mapping import sentence, translate_rpc_errors, update_translated
from perdure.gateway.execution_info import ExecutionInfo, info_of
from perdure.gateway.execution_queries import count_of, page_of
from perdure.gateway.server_connection import Connect, ServerConnection, while_away, while_busy
from perdure.gateway.types import RUN_FAILED, Waits
from perdure.gateway.worker_probe import Backlog, backlog, polled, probe

T = TypeVar("T")
Prepare = Callable[[Client], Awaitable[None]]

LOOKS_AT_ONCE = 8
ATTRIBUTE_TRIES = 12
ATTRIBUTE_PAUSE_S = 1.0


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


class EndedWithoutResult(Exception):
    """A run ended without a result: it was terminated, or its code is broken."""

    def __init__(self, ending: str, why: str) -> None:
        super().__init__(f"{ending}: {why}")
        self.ending = ending
        self.why = why


class TemporalGateway:
    """The calls of the gateway's parts, over one connection that is made at first use."""

    def __init__(
        self, connect: Connect, *, address: str, waits: Waits, prepare: Prepare | None = None
    ) -> None:
        self._server = ServerConnection(connect, address)
        self._prepare = prepare or as_it_is
        self._waits = waits

    async def start(self, order: StartRequest) -> bool:
        """Start a workflow; False if its id is or was in use.

        If the namespace lacks the search attributes, they are added first, where that is allowed.
        """
        for left in reversed(range(ATTRIBUTE_TRIES)):
            try:
                return await self.ask(lambda client: _begin(client, order))
            except NamespaceUnfit:
                if not left:
                    raise
                await self._prepare(await self._server.client())
                # A cluster loads new attributes only every few seconds.
                await asyncio.sleep(0 if left == ATTRIBUTE_TRIES - 1 else ATTRIBUTE_PAUSE_S)
        raise AssertionError("unreachable")

    async def probe(self, queue: str, *, seconds: float) -> ReadyReport | None:
        """Ask the workers of a queue to report; None if none did; raises `NothingToAskWith`."""
        return await self.ask(lambda client: probe(client, queue, seconds=seconds))

    async def polled(self, queue: str) -> bool:
        """Whether the server has seen workers poll a queue recently."""
        return await self.ask(lambda client: polled(client, queue, now=datetime.now(UTC)))

    async def backlog(self, queue: str, *, workflows: bool = False) -> Backlog:
        now = datetime.now(UTC)
        return await self.ask(lambda client: backlog(client, queue, workflows=workflows, now=now))

    async def look(self, run: str, execution: str | None = None) -> ExecutionInfo | None:
        """What the server knows of a run or None; the newest execution, unless one is named."""

        async def described(client: Client) -> ExecutionInfo:
            found = await client.get_workflow_handle(run, run_id=execution).describe()
            return replace(
                await info_of(found),
                trouble=await trouble_of(client, found, now=datetime.now(UTC)),
                task_pending=found.raw_description.HasField("pending_workflow_task"),
                unfetched=unfetched(found.raw_description, now=datetime.now(UTC)),
            )

        try:
            return await self.ask(described, run=run)
        except NotFound:
            return None

    async def looks(self, runs: Sequence[str]) -> list[ExecutionInfo]:
        """Those of these runs that the server knows, in order; it is asked for a few at once."""
        room = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def look(run: str) -> ExecutionInfo | None:
            async with room:
                return await self.look(run)

        found = await asyncio.gather(*(look(run) for run in runs))
        return [one for one in found if one is not None]

    async def query(
        self, run: str, name: str, result_type: type[T], *, given: BaseModel | None = None
    ) -> T:
        """Query a run through its worker.

        Raises:
            NoReadyWorker: no worker answers in time.
            StoreError: this process lacks the key or codec to decrypt the answer.
        """
        wait = timedelta(seconds=self._waits.query)
        return await self.ask(
            lambda client: client.get_workflow_handle(run).query(
                name, args=[given] if given else [], result_type=result_type, rpc_timeout=wait
            ),
            run=run,
        )

    async def update(self, run: str, verb: str, message: AnyMessage) -> Receipt:
        """Send a verb and wait for the receipt.

        Raises:
            NotAllowed: the validator refused it; the message is only its reason.
            NoReadyWorker: no worker took it in time.
            NotFound: the server has no open run with that id.
            StoreError: this process lacks the key or codec to decrypt the answer.
        """
        with update_translated(run, verb):
            return await self.ask(
                lambda client: client.get_workflow_handle(run).execute_update(
                    verb,
                    message,
                    # The server takes an update of one id once, however often it is sent.
                    id=message.request_id,
                    result_type=Receipt,
                    rpc_timeout=timedelta(seconds=self._waits.update),
                ),
                run=run,
            )

    async def outcome(self, run: str) -> RunResult:
        """Wait for the result of a run, also while the server is away for a while.

        Raises:
            Ended: it left no result.
        """

        async def awaited(client: Client) -> RunResult:
            handle = client.get_workflow_handle(run, result_type=RunResult)
            try:
                return await while_away(handle.result, at_most_s=self._waits.outage)
            except WorkflowFailureError as error:
                return _result_of_failure(error)

        return await self.ask(awaited, run=run)

    async def page(
        self, query: str, *, limit: int, cursor: bytes | None = None
    ) -> tuple[list[ExecutionInfo], bytes | None]:
        """One page of a visibility query, full if there are so many, and the next one's token."""
        found: list[ExecutionInfo] = []
        while True:
            left = limit - len(found)
            pages = await self.ask(partial(page_of, query=query, limit=left, cursor=cursor))
            found += [await info_of(execution) for execution in pages.current_page or ()]
            # A server may return fewer rows than asked for, even none, though there are more.
            cursor = pages.next_page_token or None
            if cursor is None or len(found) >= limit:
                return found, cursor

    async def count(self, query: str) -> int:
        """How many executions a visibility query finds."""
        return await self.ask(lambda client: count_of(client, query))

    async def delete(self, run: str, execution: str) -> None:
        """Delete one execution with its history; the server does so a moment later."""
        await self.ask(
            lambda client: client.workflow_service.delete_workflow_execution(
                DeleteWorkflowExecutionRequest(
                    namespace=client.namespace,
                    workflow_execution=ExecutionName(workflow_id=run, run_id=execution),
                )
            ),
            run=run,
        )

    async def history(self, run: str) -> str:
        """The history of the newest execution as JSON."""
        history = await self.ask(
            lambda client: client.get_workflow_handle(run).fetch_history(), run=run
        )
        return history.to_json()

    async def client(self) -> Client:
        """The connected client, for the gateway's own parts; raises `ServiceUnavailable`."""
        return await self._server.client()

    def translate_errors(self) -> AbstractContextManager[None]:
        """Raise Perdure's errors in place of the client's."""
        return translate_rpc_errors(self._server.address, namespace=self._server.namespace)

    async def ask(self, request: Callable[[Client], Awaitable[T]], *, run: str | None = None) -> T:
        """Send a request, again while the server has no room for it; raise Perdure's errors.

        Args:
            request: sends it through the connected client; it may be called several times.
            run: the run that it is about, as for `translate_errors`.
        """
        client = await self._server.client()
        with translate_rpc_errors(self._server.address, run=run, namespace=client.namespace):
            return await while_busy(lambda: request(client), at_most_s=self._waits.busy)


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
            # A retry that comes late starts nothing beside a run that goes on or has succeeded.
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


def _result_of_failure(error: WorkflowFailureError) -> RunResult:
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == RUN_FAILED and cause.details:
        given = cause.details[0]
        if isinstance(given, str):
            return read(RunResult, given)
        return read_value(RunResult, given)  # a worker of a newer version may have ended it
    # The class is named otherwise than the server, and `ExecutionInfo.ending`, call this end.
    late = isinstance(cause, RunTimedOut)
    ending = "timed_out" if late else type(cause).__name__.removesuffix("Error").lower()
    raise EndedWithoutResult(ending, sentence(cause)) from error
