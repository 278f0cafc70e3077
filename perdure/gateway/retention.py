"""What the server still keeps of this installation's runs: the decoded content of histories.

Garbage collection starts here: a blob that a kept execution names may be needed by its next step, a
replay or a reset.
"""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.converter import PayloadCodec
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.foundation.names import COLLECTION_WORKFLOW, MINING_WORKFLOW, loops_queue
from perdure.domain.ports import RecordStore
from perdure.domain.retention.erasure import Tombstone, of_tree
from perdure.domain.run.status import StoredRun
from perdure.gateway.clock_difference import server_ahead
from perdure.gateway.error_mapping import unknown_run
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.namespaces import elsewhere, in_namespace
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import Retained
from perdure.gateway.visibility import executions_of, quoted

# The metadata field in which payloads name their key.
KEY_ID = "encryption-key-id"
# Encodings of payloads that are readable: no codec was used, or ours has decoded them.
READ = frozenset({
    b"json/plain", b"json/protobuf", b"binary/plain", b"binary/null", b"binary/protobuf",
    b"json/external-storage-reference",
})  # fmt: skip
# Events that workers write; their payloads must be readable. Signals come from anywhere, so an
# unreadable one must not stop a collection.
OF_WORKERS = frozenset({
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
})  # fmt: skip
# Workflows that are no runs. That a server knows them does not prove that it has our runs.
UPKEEP = frozenset({COLLECTION_WORKFLOW, MINING_WORKFLOW})


def utc_now() -> datetime:
    """The current time, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Execution:
    run: str
    id: str | None = None
    namespace: str | None = None


class Retaining:
    """Reads the histories that the server keeps."""

    def __init__(self, *, server: TemporalGateway, records: RecordStore) -> None:
        self._server = server
        self._records = records

    async def executions(self, runs: Collection[str] | None = None) -> AsyncIterator[Retained]:
        """Every execution that the server lists, or that is open by a row or its parent.

        Rows and parents are needed because visibility is eventually consistent: a new run may be
        missing from the server's list.

        Args:
            runs: read only the executions of these runs; None reads all.

        Raises:
            ServiceUnavailable: the server does not answer.
            NotAllowed: the server knows none of the open runs of the store: it is another server.
                Open runs of other namespaces are read there.
            StoreError: something is encrypted with a key that is not known here.
        """
        client = await self._server.client()
        known = self._known() if runs is None else self._of(runs)
        waiting = [execution async for execution in known]
        seen, missing, is_ours = set[str](), list[str](), False
        while waiting:
            execution = waiting.pop()
            asked = in_namespace(client, execution.namespace) if execution.namespace else client
            with self._server.translate_errors():
                try:
                    found, children = await self._read(asked, execution, seen)
                except RPCError as error:
                    if error.status != RPCStatusCode.NOT_FOUND:
                        raise
                    # Never started, or deleted meanwhile. The server lists one that it has deleted
                    # for a while longer, and by that is none that knows nothing of us.
                    missing += [execution.run] if execution.id is None else []
                    continue
            if runs is None:
                waiting += [_Execution(each, namespace=execution.namespace) for each in children]
            if found is not None:
                is_ours = is_ours or not found.upkeep
                yield found
        if runs is None and missing and not is_ours:
            raise _another_server(client, missing)

    async def server_ahead(self) -> float | None:
        """The seconds by which the server's clock is ahead of this host's.

        None for a server without standalone activities, which tells no time.
        """
        queue = loops_queue(await self._records.installation())
        client = await self._server.client()
        with self._server.translate_errors():
            return await server_ahead(client, queue, now=utc_now)

    async def _known(self) -> AsyncIterator[_Execution]:
        queue = loops_queue(await self._records.installation())
        for run in await self._records.open_runs():
            row = await self._records.run(run)
            away = None if row is None else await elsewhere(self._server, row)
            yield _Execution(run, namespace=away)
        async for look in executions_of(self._server, f"TaskQueue = {quoted(queue)}"):
            yield _Execution(look.id, look.execution)

    async def _of(self, runs: Collection[str]) -> AsyncIterator[_Execution]:
        for run in runs:
            yield _Execution(run)
            async for look in executions_of(self._server, _all_of(run)):
                yield _Execution(run, look.execution)

    async def _read(
        self, client: Client, execution: _Execution, seen: set[str]
    ) -> tuple[Retained | None, Sequence[str]]:
        handle = client.get_workflow_handle(execution.run, run_id=execution.id)
        # Describe first, then read the history: a step that ends in between is in the history.
        described = await handle.describe()
        if described.run_id in seen:
            return None, ()
        seen.add(described.run_id)
        # By the execution that was described: the newest may be another one by now.
        history = client.get_workflow_handle(
            execution.run, run_id=described.run_id
        ).fetch_history_events()
        content: set[bytes] = set()
        keys: set[str] = set()
        codec = client.data_converter.payload_codec
        async for event in history:
            found = await _opened(event, codec, keys)
            if event.event_type in OF_WORKERS:
                _require_readable(found, execution.run)
            content |= {payload.data for payload in found}
        raw = described.raw_description
        # Heartbeat details and last failures are not in the history, but may name blobs too.
        for step in raw.pending_activities:
            content |= {payload.data for payload in await _opened(step, codec, keys)}
        retained = Retained(
            run=execution.run,
            closed_at=described.close_time,
            upkeep=described.workflow_type in UPKEEP,
            busy_since=_busy_since(described),
            content=frozenset(content),
            keys=frozenset(keys),
            steps=frozenset(
                f"{described.run_id}/{step.activity_id}" for step in raw.pending_activities
            ),
        )
        return retained, [child.workflow_id for child in raw.pending_children]


def _another_server(client: Client, missing: Sequence[str]) -> NotAllowed:
    address, namespace = client.service_client.config.target_host, client.namespace
    return NotAllowed(
        f"The store has {len(missing)} open run(s), as {missing[0]}, but the namespace {namespace} "
        f"of the Temporal server at {address} knows no run of this installation. What they need "
        "is unknown, so nothing was deleted.",
        cure="Correct TEMPORAL_ADDRESS or TEMPORAL_NAMESPACE. If they are gone for good, "
        f"`perdure retry {missing[0]}` takes one up again; then end it: "
        f"`perdure stop {missing[0]}`.",
    )


def _busy_since(described: WorkflowExecutionDescription) -> datetime | None:
    began = [
        step.last_started_time.ToDatetime(tzinfo=UTC)
        for step in described.raw_description.pending_activities
        if step.HasField("last_started_time")
    ]
    return min(began, default=None)


def _require_readable(payloads: Sequence[Payload], run: str) -> None:
    """Refuse a collection that cannot read what a run needs, for example for lack of a codec."""
    for payload in payloads:
        encoding = payload.metadata.get("encoding", b"")
        if encoding not in READ:
            told = encoding.decode(errors="replace")[:40] or "nothing"
            raise NotAllowed(
                f"What the run {run} needs is unknown: its steps are encoded as {told}, by a codec "
                "that this process does not have. Nothing was deleted.",
                cure="Name the codec of the workers in PERDURE_PAYLOAD_CODEC.",
            )


async def _opened(
    message: Message, codec: PayloadCodec | None, keys: set[str]
) -> Sequence[Payload]:
    payloads = list(_payloads(message))
    keys |= {
        payload.metadata[KEY_ID].decode(errors="replace")
        for payload in payloads
        if KEY_ID in payload.metadata
    }
    # Decode, because an encrypted payload hides the addresses in it. A missing key must end the
    # collection; to skip the payload would delete blobs that are needed.
    return payloads if codec is None else await codec.decode(payloads)


def _payloads(message: Message) -> Iterator[Payload]:
    """All payloads inside a server message, at any depth."""
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            inner = (
                value.values() if field.message_type.fields_by_name["value"].message_type else ()
            )
        else:
            inner = value if field.is_repeated else (value,)
        for part in inner:
            yield from _payloads(part)


class Deleting:
    """Deletes runs; their spend stays in the journal, which is a ledger."""

    def __init__(self, *, server: TemporalGateway, records: RecordStore) -> None:
        self._server = server
        self._records = records

    async def delete(self, run: str) -> None:
        """Delete an ended run; see `Gateway.delete`."""
        look = await self._ended(run)
        if look is None and await self._records.run(run) is None:
            raise unknown_run(run)
        below = await self._below(run)
        for one in below:
            await self._ended(one)
        # The run itself goes last: after an interruption, a repeat finds the rest through it.
        for one in (*below, run):
            await self._drop(one)

    async def expire(self, stones: Sequence[Tombstone], *, dry_run: bool) -> None:
        """Delete a tree of ended runs; see `Gateway.expire`."""
        for stone in stones:
            await self._ended(stone.run)
        if dry_run:
            return
        # The root goes last: an interrupted collection finds the rest of the tree through it. No
        # run goes before those below it: without a parent they would be trees of their own.
        deepest = sorted(stones, key=lambda stone: stone.run, reverse=True)
        for stone in sorted(deepest, key=lambda stone: stone.run == stone.root):
            await self._drop(stone.run, stone)

    async def _below(self, run: str) -> list[str]:
        """The runs below a run, each before those that it works for."""
        found: list[StoredRun] = []
        while page := await self._records.find_runs(prefix=f"{run}.", offset=len(found)):
            found += page
        return sorted((row.id for row in of_tree(run, found)), reverse=True)

    async def _ended(self, run: str) -> ExecutionInfo | None:
        look = await self._server.look(run)
        if look is not None and look.open:
            raise _not_ended(run)
        return look

    async def _drop(self, run: str, stone: Tombstone | None = None) -> None:
        listed = [found async for found in executions_of(self._server, _all_of(run))]
        # Somebody may have retried or reset the run since its tree was looked at. This look comes
        # after the list, which may have an execution as open that has closed since.
        look = await self._ended(run)
        # The list may not include the newest execution yet, but `look` does.
        for execution in {found.execution for found in (*listed, look) if found is not None}:
            # The list is seconds behind: another request, or the server itself, may have deleted
            # it.
            with suppress(NotFound):
                await self._server.delete(run, execution)
        # Last, since only by the row a repeat finds what is left at the server.
        await self._records.delete_run(run, stone=stone)


def _not_ended(run: str) -> NotAllowed:
    return NotAllowed(
        f"The run {run} has not ended; only ended runs can be deleted.",
        cure=f"Stop it first: perdure stop {run}",
    )


def _all_of(run: str) -> str:
    return f"WorkflowId = {quoted(run)}"
