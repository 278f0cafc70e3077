"""A workflow that is started with what is no input of it fails at once, and says why."""

import json
from typing import get_args

import pytest
from installation import Installation
from temporalio.api.common.v1 import Payload, Payloads, WorkflowType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from perdure.domain.foundation.names import MINING_WORKFLOW, WORKFLOW_TYPES, LoopKind, loops_queue

TYPES = (*WORKFLOW_TYPES.values(), MINING_WORKFLOW)
INPUTS = {
    "nothing": ((), "it takes one object, 0 values came"),
    "two values": ((b'{"goal": "x"}', b"1"), "it takes one object, 2 values came"),
    "a text": ((b'"write a poem"',), "allowed: "),
    "null": ((b"null",), "allowed: "),
    "a foreign shape": ((b'{"prompt": "x"}',), "found nothing; allowed: a value; the field is"),
    "no JSON": ((b"{prompt",), "it is no JSON"),
    "half an emoji": ((rb'{"goal": "\ud83d"}',), "half a character"),
    "very deep": ((b"[" * 5000 + b"]" * 5000,), "nested too deep"),
}
SITE = {"loops": "loops", "models": "models", "tools": "tools"}
MORE: dict[LoopKind, dict[str, object]] = {
    "agent": {},
    "refine": {
        "rubric": [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 4}}]
    },
    "roles": {"roles": {"definition": "reflection"}},
    "delegation": {},
}


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS.keys())
async def test_a_wrong_input_fails_the_run_at_once(
    site: Installation, given: tuple[tuple[bytes, ...], str]
) -> None:
    values, words = given
    for kind in TYPES:
        error = await _fails(site, kind, values)
        assert error.type == "invalid_input"
        assert error.message.startswith(f"The input of {kind} cannot be read: ")
        assert words in error.message, kind


@pytest.mark.parametrize("values", [(), (b'{"goal": "x"}', b"1")], ids=["nothing", "two values"])
async def test_who_starts_a_task_is_told_what_a_task_is(
    site: Installation, values: tuple[bytes, ...]
) -> None:
    for loop in get_args(LoopKind):
        kind = WORKFLOW_TYPES[loop]
        error = await _fails(site, kind, values, queue=site.settings.task_queue)
        assert "The input is one JSON object, the task" in error.message


@pytest.mark.parametrize(
    ("encoding", "value"),
    [(b"binary/plain", b'{"goal": "x"}'), (b"binary/null", b"")],
    ids=["bytes", "nothing"],
)
async def test_an_input_in_an_encoding_without_a_type_fails_the_run_at_once(
    site: Installation, encoding: bytes, value: bytes
) -> None:
    loops = [WORKFLOW_TYPES[kind] for kind in get_args(LoopKind)]
    for kind, queue in [(kind, "") for kind in TYPES] + [
        (kind, site.settings.task_queue) for kind in loops
    ]:
        error = await _fails(site, kind, (value,), queue=queue, encoding=encoding)
        assert f"it is sent as {encoding.decode()}; send it as json/plain" in error.message


@pytest.mark.parametrize("kind", get_args(LoopKind))
async def test_the_input_of_another_run_starts_nothing(site: Installation, kind: LoopKind) -> None:
    """As `Start Workflow Like This One` of the Web UI sends it, under a new id."""
    given = {"run": "theirs", "site": SITE, "spec": {"kind": kind, "goal": "x", **MORE[kind]}}
    error = await _fails(site, WORKFLOW_TYPES[kind], (json.dumps(given).encode(),))
    assert error.type == "invalid_input"
    assert "it is the input of theirs" in error.message
    assert await site.parts.stores.records.run("theirs") is None


async def _fails(
    site: Installation,
    kind: str,
    values: tuple[bytes, ...],
    *,
    queue: str = "",
    encoding: bytes = b"json/plain",
) -> ApplicationError:
    client = site.client
    name = f"wrong-{kind}-{abs(hash((values, queue, encoding)))}"
    queue = queue or loops_queue(await site.parts.stores.records.installation())
    payloads = [Payload(metadata={"encoding": encoding}, data=value) for value in values]
    await client.workflow_service.start_workflow_execution(
        StartWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_id=name,
            request_id=name,
            workflow_type=WorkflowType(name=kind),
            task_queue=TaskQueue(name=queue),
            input=Payloads(payloads=payloads),
        )
    )
    with pytest.raises(WorkflowFailureError) as caught:
        await client.get_workflow_handle(name).result()
    assert isinstance(caught.value.cause, ApplicationError)
    exported = json.loads((await client.get_workflow_handle(name).fetch_history()).to_json())
    kinds = [event["eventType"] for event in exported["events"]]
    assert "EVENT_TYPE_WORKFLOW_TASK_FAILED" not in kinds
    return caught.value.cause
