"""Interceptors of somebody else that hand a tenant on in headers, and refuse what comes without."""

import uuid
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import pytest
from installation import Installation
from temporalio import activity, client, worker, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import PayloadConverter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from perdure.temporal import PerdurePlugin, activity_check, activity_tool

with workflow.unsafe.imports_passed_through():
    from perdure.workflow import Child, OpenGate, agent, refine

TENANT = "x-tenant"
tenant: ContextVar[str] = ContextVar("tenant", default="")


def _put(input: Any) -> Any:
    if tenant.get():
        said = {TENANT: PayloadConverter.default.to_payload(tenant.get())}
        input.headers = {**input.headers, **said}
    return input


def _take(headers: Mapping[str, Payload], what: str) -> None:
    if TENANT not in headers:
        raise ApplicationError(f"no tenant at {what}", non_retryable=True)
    tenant.set(PayloadConverter.default.from_payload(headers[TENANT], str))


class Tenants(client.Interceptor, worker.Interceptor):
    """Hands the tenant on from the client to activities and children, as a company would."""

    def intercept_client(self, next: client.OutboundInterceptor) -> client.OutboundInterceptor:
        return _Starts(next)

    def intercept_activity(
        self, next: worker.ActivityInboundInterceptor
    ) -> worker.ActivityInboundInterceptor:
        return _Activities(next)

    def workflow_interceptor_class(self, input: worker.WorkflowInterceptorClassInput) -> Any:
        return _Workflows


class _Starts(client.OutboundInterceptor):
    async def start_workflow(self, input: client.StartWorkflowInput) -> Any:
        return await self.next.start_workflow(_put(input))


class _Activities(worker.ActivityInboundInterceptor):
    async def execute_activity(self, input: worker.ExecuteActivityInput) -> Any:
        _take(input.headers, activity.info().activity_type)
        return await self.next.execute_activity(input)


class _Workflows(worker.WorkflowInboundInterceptor):
    def init(self, outbound: worker.WorkflowOutboundInterceptor) -> None:
        self.next.init(_Scheduled(outbound))

    async def execute_workflow(self, input: worker.ExecuteWorkflowInput) -> Any:
        _take(input.headers, workflow.info().workflow_type)
        return await self.next.execute_workflow(input)

    async def handle_signal(self, input: worker.HandleSignalInput) -> None:
        _take(input.headers, input.signal)
        await self.next.handle_signal(input)


class _Scheduled(worker.WorkflowOutboundInterceptor):
    def start_activity(self, input: worker.StartActivityInput) -> Any:
        return self.next.start_activity(_put(input))

    async def start_child_workflow(self, input: worker.StartChildWorkflowInput) -> Any:
        return await self.next.start_child_workflow(_put(input))


@activity.defn
async def refund(item: str) -> str:
    """Refund an item.

    Args:
        item: its name.
    """
    return f"{item} refunded by {tenant.get()}"


@activity.defn
async def signed(output: str) -> bool:
    """Whether an output names the tenant."""
    return tenant.get() in output


@workflow.defn
class Refunds:
    """Approves each refund of its loop."""

    @workflow.run
    async def run(self, task: dict[str, Any], loops: str | None) -> str:
        async def on_gate(gate: OpenGate) -> str | None:
            return "approve" if gate.subject == "refund" else None

        child = Child(task_queue=loops)
        result = await agent("Refund the cup.", on_gate=on_gate, child=child, **task)
        return str(result.output)


@workflow.defn
class Letters:
    """Has a letter written that a check of the company's own reads."""

    @workflow.run
    async def run(self, task: dict[str, Any], loops: str | None) -> str:
        child = Child(task_queue=loops)
        rubric = [{"name": "signed", "evaluator": {"check": "signed"}}]
        result = await refine("Write.", rubric=rubric, refine={"plan": "off"}, child=child, **task)
        return str(result.output)


CALL = {"tool_calls": [{"name": "refund", "arguments": {"item": "cup"}}]}
CASES: dict[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "a tool, and gates": (
        Refunds,
        [CALL, {"text": "Done."}],
        {"tools": {"access": "full", "allow": ["refund"]}},
    ),
    "a check": (Letters, [{"text": "Yours, nobody"}, {"text": "Yours, acme"}], {}),
}


@pytest.mark.parametrize("loops", [None, "loops-of-a-company"], ids=["their queue", "another"])
@pytest.mark.parametrize(("kind", "replies", "task"), CASES.values(), ids=CASES.keys())
async def test_headers_come_with_tools_checks_and_gates(
    bare: Installation, kind: Any, replies: list[Any], task: dict[str, Any], loops: str | None
) -> None:
    plugin = PerdurePlugin(
        bare.settings,
        tools=[activity_tool(refund, access="write", approve=True)],
        checks=[activity_check(signed)],
        queues=[loops] if loops else [],
    )
    theirs = await Client.connect(bare.address, plugins=[plugin], interceptors=[Tenants()])
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    model = await bare.script({"replies": replies})
    given = {"models": {"executor": model}, **task}
    tenant.set("acme")
    async with Worker(theirs, task_queue=queue, workflows=[kind], activities=[refund, signed]):
        output = await theirs.execute_workflow(
            kind.run, args=[given, loops], id=f"o-{queue}", task_queue=queue
        )
    assert output == replies[-1]["text"]
