"""A loop behind a Nexus operation, with the handler that docs/temporal.md shows."""

import asyncio
import re
import sys
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import nexusrpc
import pytest
from installation import Installation
from nexusrpc.handler import service_handler
from temporalio import nexus, workflow
from temporalio.api.nexus.v1 import EndpointSpec, EndpointTarget
from temporalio.api.operatorservice.v1 import CreateNexusEndpointRequest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, NexusOperationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from perdure.temporal import PerdurePlugin

PAGE = Path(__file__).parents[2] / "docs" / "temporal.md"


def handler(queue: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The handler of the page, on the queue of the test."""
    (block,) = re.findall(r"```python\n(@nexusrpc\.service.*?)```", PAGE.read_text(), re.DOTALL)
    module = ModuleType("writing")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.__dict__.update(Any=Any, nexusrpc=nexusrpc, nexus=nexus, service_handler=service_handler)
    exec(block.replace('"perdure"', repr(queue)), module.__dict__)
    return module.__dict__["WritingHandler"]()


@workflow.defn
class Caller:
    """Has a letter written by an operation, and cancels it if it is told to."""

    @workflow.run
    async def run(self, order: dict[str, Any]) -> str:
        client = workflow.create_nexus_client(service="Writing", endpoint=order["endpoint"])
        operation = await client.start_operation("write", order, output_type=dict[str, Any])
        if order["cancel"]:
            await workflow.sleep(1)
            operation.cancel()
        try:
            result = await operation
        except NexusOperationError as error:
            cause = error.cause
            return (
                f"{cause.type}: {cause.message[:19]}" if isinstance(cause, ApplicationError) else ""
            )
        return f"{result['outcome']}: {result['output']}"[:16]


SLOW: dict[str, Any] = {"text": "Late.", "delay_s": 600}
CASES: dict[str, tuple[dict[str, Any], bool, dict[str, Any], str]] = {
    "its result": ({"text": "Dear Ann"}, False, {}, "accepted: Dear A"),
    "a refused task": ({"text": "."}, False, {"nope": 1}, "RunFailed: failed/invalid_task"),
    "a cancelled operation": (SLOW, True, {}, "stopped: The mod"),
}


@pytest.mark.parametrize(("reply", "cancel", "more", "told"), CASES.values(), ids=CASES.keys())
async def test_an_operation_ends_as_its_loop(
    bare: Installation, monkeypatch: pytest.MonkeyPatch, reply: dict[str, Any], cancel: bool,
    more: dict[str, Any], told: str,
) -> None:  # fmt: skip
    name = uuid.uuid4().hex[:8]
    queue = endpoint = f"nexus-{name}"
    client = await Client.connect(bare.address, plugins=[PerdurePlugin(bare.settings)])
    target = EndpointTarget.Worker(namespace=client.namespace, task_queue=queue)
    await client.operator_service.create_nexus_endpoint(
        CreateNexusEndpointRequest(
            spec=EndpointSpec(name=endpoint, target=EndpointTarget(worker=target))
        )
    )
    model = await bare.script({"replies": [reply]})
    task = {"goal": "Write.", "models": {"executor": model}, **more}
    order = {"id": name, "task": task, "endpoint": endpoint, "cancel": cancel}
    async with (
        Worker(
            client,
            task_queue=queue,
            workflows=[Caller],
            nexus_service_handlers=[handler(queue, monkeypatch)],
            workflow_runner=UnsandboxedWorkflowRunner(),  # its module imports this test's helpers
        ),
        asyncio.timeout(60),
    ):
        said = await client.execute_workflow(Caller.run, order, id=f"c-{name}", task_queue=queue)
    assert said == told
