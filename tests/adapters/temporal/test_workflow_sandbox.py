"""The quick sandbox restricts what the SDK's does, and says of each value where it belongs."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from perdure.adapters.temporal.workflow_sandbox import QuickSandbox
from tests.support.sandboxed import Above, Below, Outbreak, echoed

RUNNERS: list[Callable[[], WorkflowRunner]] = [SandboxedWorkflowRunner, QuickSandbox]
Seen = set[tuple[str, str, str, bytes]]


class Noting(PayloadCodec, WithSerializationContext):
    """Leaves payloads as they are, and notes what is asked of it in which context."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._place: tuple[str, str] = ("none", "")

    def with_context(self, context: SerializationContext) -> "Noting":
        bound = copy(self)
        match context:
            case ActivitySerializationContext():
                bound._place = (f"activity {context.activity_type}", context.workflow_id or "")
            case WorkflowSerializationContext():
                bound._place = ("workflow", context.workflow_id)
            case _:
                pass
        return bound

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return self._noted("encode", payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return self._noted("decode", payloads)

    def _noted(self, what: str, payloads: Sequence[Payload]) -> list[Payload]:
        self._seen.update((what, *self._place, payload.data) for payload in payloads)
        return list(payloads)


async def played(client: Client, runner: WorkflowRunner, seen: Seen) -> str:
    """Run the workflow under an id of its own, which what was seen does not tell."""
    run, heard = str(uuid4()), Seen()
    converter = replace(DataConverter.default, payload_codec=Noting(heard))
    worker = Worker(
        await Client.connect(client.service_client.config.target_host, data_converter=converter),
        task_queue=run,
        workflows=[Above, Below, Outbreak],
        activities=[echoed],
        workflow_runner=runner,
    )
    async with worker:
        found = await client.execute_workflow(Above.run, "value", id=run, task_queue=run)
    seen.update((a, b, place.replace(run, "RUN"), data) for a, b, place, data in heard)
    return found


async def test_values_belong_where_the_sdk_says_that_they_do(server: WorkflowEnvironment) -> None:
    seen: dict[str, Seen] = {}
    for runner in RUNNERS:
        made = runner()
        noted = seen.setdefault(type(made).__name__, set())
        assert await played(server.client, made, noted) == "value!"
    assert seen["QuickSandbox"] == seen["SandboxedWorkflowRunner"]
    places = {(kind, place) for _, kind, place, _ in seen["QuickSandbox"]}
    assert {("activity echoed", "RUN"), ("workflow", "RUN.below"), ("workflow", "RUN")} <= places


@pytest.mark.parametrize("runner", RUNNERS)
async def test_nothing_breaks_out(
    server: WorkflowEnvironment, runner: Callable[[], WorkflowRunner]
) -> None:
    run = str(uuid4())
    worker = Worker(server.client, task_queue=run, workflows=[Outbreak], workflow_runner=runner())
    async with worker:
        found = await server.client.execute_workflow(Outbreak.run, id=run, task_queue=run)
    assert found == "RestrictedWorkflowAccessError"
