"""Whatever anybody sends to a run, it lives, and says what it did not understand.

Through the raw interface of the server, as a client in any language would send, and through the
server's own command line.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from holding import Holding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from installation import Installation
from steered import DONE, HELD_LIST, spec, told
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.enums.v1 import UpdateWorkflowExecutionLifecycleStage
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.api.update.v1 import Input, Meta, Request, WaitPolicy
from temporalio.api.workflowservice.v1 import (
    QueryWorkflowRequest,
    SignalWorkflowExecutionRequest,
    UpdateWorkflowExecutionRequest,
)
from temporalio.service import RPCError
from waiting import eventually

from perdure.adapters.temporal.encryption import EncryptionCodec
from perdure.domain.foundation.names import QUERIES
from perdure.domain.run.message_forms import SHORT_ANSWERS
from perdure.domain.run.messages import VERBS
from perdure.domain.run.result import RunResult
from perdure.local_services.service_commands import temporal_binary

ANSWER_S = 60.0
JSON = {"encoding": b"json/plain"}
FINISHED = UpdateWorkflowExecutionLifecycleStage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED


@dataclass
class Target:
    """A run in the middle of a model call, and the raw ways to it."""

    site: Installation
    run: str
    holding: Holding

    @property
    def _execution(self) -> WorkflowExecution:
        return WorkflowExecution(workflow_id=self.run)

    async def signal(self, name: str, payloads: list[Payload]) -> None:
        """A signal of exactly these values."""
        client = self.site.client
        await client.workflow_service.signal_workflow_execution(
            SignalWorkflowExecutionRequest(
                namespace=client.namespace,
                workflow_execution=self._execution,
                signal_name=name,
                input=Payloads(payloads=payloads),
            )
        )

    async def update(self, name: str, payloads: list[Payload]) -> str:
        """An update of exactly these values; returns the refusal, or nothing."""
        client = self.site.client
        response = await client.workflow_service.update_workflow_execution(
            UpdateWorkflowExecutionRequest(
                namespace=client.namespace,
                workflow_execution=self._execution,
                wait_policy=WaitPolicy(lifecycle_stage=FINISHED),
                request=Request(
                    meta=Meta(), input=Input(name=name, args=Payloads(payloads=payloads))
                ),
            ),
            timeout=timedelta(seconds=ANSWER_S),
        )
        return response.outcome.failure.message

    async def query(self, name: str, payloads: list[Payload]) -> str:
        """A query of exactly these values; returns the refusal, or nothing."""
        client = self.site.client
        try:
            await client.workflow_service.query_workflow(
                QueryWorkflowRequest(
                    namespace=client.namespace,
                    execution=self._execution,
                    query=WorkflowQuery(query_type=name, query_args=Payloads(payloads=payloads)),
                ),
                timeout=timedelta(seconds=ANSWER_S),
            )
        except RPCError as error:
            return error.message
        return ""

    async def refused(self, count: int) -> tuple[str, ...]:
        """What status and panel say of refused messages, once there are so many."""

        async def there() -> bool:
            return (await told(self.site, self.run)).refused_count >= count

        await eventually(there)
        status = await told(self.site, self.run)
        assert status.refused_count == count
        panel = await self.panel()
        assert status.refused[-1][:100] in " ".join(panel.split())
        return status.refused

    async def panel(self) -> str:
        """The current details, as the Web UI shows them."""
        client = self.site.client
        handle = client.get_workflow_handle(self.run)
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        return metadata.current_details

    async def lives(self) -> RunResult:
        """The run goes on as if nothing had been sent, and no task of it ever failed."""
        if (await told(self.site, self.run)).lifecycle == "paused":
            await self.signal("resume", [])
        self.holding.release()
        result = await self.site.gateway.result(self.run)
        kinds = [str(event["eventType"]) for event in await self.site.history(self.run)]
        assert not [kind for kind in kinds if "TASK_FAILED" in kind or "TASK_TIMED_OUT" in kind]
        return result


@pytest.fixture
async def target(site: Installation, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Target]:
    """A run whose first reply is held back."""
    holding = Holding()
    holding.install(monkeypatch)
    limits = {"wall_time": None, "active_time": None}
    run = await site.start(spec(budget=limits), {"replies": [HELD_LIST, DONE]})
    await holding.begun()
    yield Target(site, run, holding)
    if (await site.status(run)).outcome is None:
        await site.handle(run).signal("stop", {"mode": "now"})
        holding.release()
        await site.handle(run).result()


def _json(value: object) -> Payload:
    return Payload(metadata=JSON, data=json.dumps(value).encode())


def _bare(data: bytes, **metadata: bytes) -> Payload:
    return Payload(metadata=metadata, data=data)


def _sealed_elsewhere() -> Payload:
    (sealed,) = asyncio.run(EncryptionCodec([b"f" * 32]).encode([_json({"by": "me"})]))
    return sealed


def _kept_elsewhere(driver: str, claim: object) -> Payload:
    told = json.dumps({"driverName": driver, "claimData": claim}).encode()
    kind = b"temporal.api.sdk.v1.ExternalStorageReference"
    return Payload(metadata={"encoding": b"json/protobuf", "messageType": kind}, data=told)


OURS = "perdure-blobs-v1"
NO_BLOB = {"address": "sha256:" + "0" * 64}
UNREADABLE = {
    "misspelt": ("answer", [_json({"gate": "g1", "choise": "x"})], "`choise` is no field (did"),
    "nothing where a gate belongs": ("answer", [], "`gate` is missing; send {"),
    "null": ("answer", [_json(None)], "`gate` is missing; send {"),
    "a foreign shape": ("answer", [_json({"gate": {"id": 1}})], "`gate`: found an object of 1"),
    "three values": ("add_input", [_json({"text": "x"})] * 3, "one object, 3 values came"),
    "a text that is no mode": ("stop", [_json("at once")], '`mode`: found "at once"'),
    "a text where none fits": ("pause", [_json("now")], 'found the text "now" where an object'),
    "a list": ("resume", [_json([1, 2])], "found a list of 2"),
    "a number": ("amend", [_json(3)], "found 3 where"),
    "no JSON": ("pause", [_bare(b"{by", **JSON)], "its 3 bytes as json/plain cannot be read"),
    "half a character": ("add_input", [_bare(b'{"text": "\\ud800"}', **JSON)], "cannot be read"),
    "no UTF-8": ("add_input", [_bare(b'{"text": "\xff"}', **JSON)], "cannot be read"),
    "a deep nest": ("amend", [_bare(b"[" * 9_000, **JSON)], "cannot be read"),
    "another codec": ("pause", [_bare(b"x", encoding=b"binary/zlib")], "binary/zlib cannot be"),
    "no encoding": ("pause", [_bare(b"x")], "its 1 bytes cannot be read"),
    "bytes": ("pause", [_bare(b"\xff", encoding=b"binary/plain")], "found 1 bytes where"),
    "a foreign message": (
        "pause",
        [_bare(b"{}", encoding=b"json/protobuf", messageType=b"no.Such")],
        "json/protobuf cannot be read",
    ),
    "a foreign key": ("stop", [_sealed_elsewhere()], "binary/encrypted cannot be read"),
    "a blob that is not": ("stop", [_kept_elsewhere(OURS, NO_BLOB)], "is not there"),
    "a claim of nothing": ("stop", [_kept_elsewhere(OURS, {})], "is not there"),
    "another store": ("stop", [_kept_elsewhere("s3", NO_BLOB)], "is not there"),
    "a broken claim": ("stop", [_kept_elsewhere(OURS, 7)], "is not there"),
    "a marked value": (
        "stop",
        [_bare(b"{}", __temporal_external_storage_reference=b"true", **JSON)],
        "is not there",
    ),
    "too long": ("add_input", [_json({"text": "x" * 1_500_000})], "the text is above 8 KiB"),
    "too much": ("amend", [_json({"metadata": {"x": "y" * 100_000}})], "above 64 KiB"),
    "a limit beyond time": ("amend", [_json({"budget": {"wall_time": 1e300}})], "wall_time"),
    "a limit beyond number": ("amend", [_json({"budget": {"cost_usd": "1e99999999"}})], "cost"),
    "no number": ("amend", [_bare(b'{"budget": {"active_time": NaN}}', **JSON)], "active_time"),
    "an unknown name": ("paus", [], "there is no such signal (did you mean `pause`?); there are"),
    "a name of another system": ("__proto__", [_bare(b"\xff")], "there is no such signal"),
}


@pytest.mark.long
async def test_what_cannot_be_read_is_refused_in_words(target: Target) -> None:
    for count, (what, (name, payloads, words)) in enumerate(UNREADABLE.items(), start=1):
        await target.signal(name, payloads)
        newest = (await target.refused(count))[-1]
        assert newest.startswith(f"{name}: "), what
        assert words in newest, what
    assert (await target.lives()).outcome == "accepted"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "stop"])
async def test_a_verb_without_input_is_taken_or_refused(target: Target, verb: str) -> None:
    await _by_command_line(target, verb)
    if verb in {"pause", "escalate"}:
        await eventually(lambda: _had_its_effect(target, verb))
    else:
        assert (await target.refused(1))[0].startswith(f"{verb}: ")
    if verb != "escalate":
        assert (await target.lives()).outcome == "accepted"


async def test_a_stop_without_input_stops(target: Target) -> None:
    await _by_command_line(target, "stop")
    assert (await target.lives()).outcome == "stopped"


@pytest.mark.long
async def test_updates_and_queries_of_any_shape_are_answered(target: Target) -> None:
    for what, (name, payloads, words) in UNREADABLE.items():
        if name in VERBS:
            assert words in await target.update(name, payloads), what
    assert "expected but not found" in await target.update("paus", [])
    for name in QUERIES:
        assert not await target.query(name, [])
    for payloads in ([_json({"sinse": 1})], [_json("1")], [_bare(b"x")], [_json({})] * 2):
        assert "send {" in await target.query("events", payloads)
        assert not await target.query("status", payloads)
    status = await told(target.site, target.run)
    assert status.refused_count == 0, "what its sender was told is no business of the status"
    assert (await target.lives()).outcome == "accepted"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["by", "text", "gate", "choice", "note", "budget", "goal", "rubric", "metadata",
                 "guidance", "max_iterations", "request_id", "ref", "label", "wall_time", "tokens",
                 "cost_usd", "depth", "remove"]
            ) | st.text(max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip
PAYLOADS = st.builds(_json, VALUES) | st.builds(
    Payload,
    metadata=st.dictionaries(
        st.sampled_from(["encoding", "messageType", "encryption-key-id"]),
        st.sampled_from([b"json/plain", b"binary/null", b"json/protobuf", b"binary/protobuf",
                         b"binary/encrypted", b"json/external-storage-reference"])
        | st.binary(max_size=8),
        max_size=3,
    ),
    data=st.binary(max_size=40),
)  # fmt: skip
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([*(verb for verb in VERBS if verb != "stop"), *SHORT_ANSWERS])
        | st.text(max_size=6),
        st.lists(PAYLOADS, max_size=3),
    ),
    min_size=1,
    max_size=25,
)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(messages=MESSAGES)
async def test_no_signal_fails_a_task(target: Target, messages: list[tuple[str, list[Payload]]]):
    await _fuzz(target, messages)


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(messages=MESSAGES)
async def test_no_signal_of_very_many_fails_a_task(
    target: Target, messages: list[tuple[str, list[Payload]]]
) -> None:
    await _fuzz(target, messages)


async def _fuzz(target: Target, messages: list[tuple[str, list[Payload]]]) -> None:
    for name, payloads in messages:
        with contextlib.suppress(RPCError):  # the server itself takes no empty name
            await target.signal(name, payloads)
    assert (await told(target.site, target.run)).id == target.run
    described = await target.site.handle(target.run).describe()
    pending = described.raw_description.pending_workflow_task
    assert pending.attempt <= 1
    kinds = [str(event["eventType"]) for event in await target.site.history(target.run)]
    assert not [kind for kind in kinds if "TASK_FAILED" in kind]


async def _had_its_effect(target: Target, verb: str) -> bool:
    """Whether a signal that is allowed was taken: the panel says so, or nothing was refused."""
    status = await told(target.site, target.run)
    if verb == "pause":
        return status.lifecycle == "paused" and "Paused" in await target.panel()
    events = await target.site.history(target.run)
    return any("SIGNALED" in str(e["eventType"]) for e in events) and not status.refused


async def _by_command_line(target: Target, verb: str) -> None:
    """What a person types who knows Temporal and not us."""
    process = await asyncio.create_subprocess_exec(
        str(temporal_binary()), "workflow", "signal", "--address", target.site.address,
        "--workflow-id", target.run, "--name", verb,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
