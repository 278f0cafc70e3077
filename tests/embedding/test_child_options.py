"""Memo and search attributes that a workflow gives a loop which it awaits."""

import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from installation import Installation
from temporalio import workflow
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.failure.v1 import Failure
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker

from perdure.temporal import PerdurePlugin

with workflow.unsafe.imports_passed_through():
    from perdure.embedding.child_options import attributes_of
    from perdure.workflow import Child, OpenGate, agent

CUSTOMER = SearchAttributeKey.for_keyword("Customer")
HALF = "\ud83d"  # of an emoji: UTF-8 cannot encode it
RANK = SearchAttributeKey.for_int("Rank")
OF_CUSTOMER = TypedSearchAttributes(
    [SearchAttributePair(CUSTOMER, "c-17"), SearchAttributePair(RANK, 3)]
)


@workflow.defn
class Awaiting:
    """Awaits an agent with one of the options below, by name."""

    @workflow.run
    async def run(self, option: str, id: str, model: str) -> str:
        child = Child(**OPTIONS[option])
        result = await agent(
            "Say it.", id=id, child=child, models={"executor": model}, recall=False
        )
        return str(result.output)


@workflow.defn
class Answering:
    """Awaits an agent with a memo, and answers its question."""

    @workflow.run
    async def run(self, id: str, model: str) -> str:
        def on_gate(gate: OpenGate) -> str:
            return "Blue."

        result = await agent(
            "Say it.", id=id, child=Child(memo={"customer": "c-17"}), on_gate=on_gate,
            models={"executor": model}, tools={"access": "full", "allow": ["human.ask"]},
        )  # fmt: skip
        return str(result.output)


def _pair(key: Any, value: Any) -> dict[str, Any]:
    return {"search_attributes": TypedSearchAttributes([SearchAttributePair(key, value)])}


OPTIONS: Mapping[str, dict[str, Any]] = {
    "good": {"memo": {"customer": {"id": 17}}, "search_attributes": OF_CUSTOMER},
    "a name of ours": {"memo": {"customer": 1, "goal": "x"}},
    "a name that is none": {"memo": {3: "x"}},
    "a value that is no JSON": {"memo": {"customer": object()}},
    "attributes untyped": {"search_attributes": {"Customer": ["c-17"]}},
    "an attribute of ours": _pair(SearchAttributeKey.for_keyword("PerdureLabel"), "x"),
    "an attribute of Temporal": _pair(SearchAttributeKey.for_keyword("TemporalThing"), "x"),
    "no number": _pair(RANK, "3"),
    "no texts": _pair(SearchAttributeKey.for_keyword_list("Tags"), "ab"),
    "no moment": _pair(SearchAttributeKey.for_datetime("Due"), "2026-01-01"),
}


async def _registered(client: Client) -> None:
    kinds = {
        "Customer": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
        "Rank": IndexedValueType.INDEXED_VALUE_TYPE_INT,
    }
    wanted = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=kinds)
    await client.operator_service.add_search_attributes(wanted)


async def _started(
    bare: Installation, work: Any, *args: Any, reply: Mapping[str, Any]
) -> tuple[WorkflowHandle[Any, Any], Client, str, Worker]:
    model = await bare.script({"replies": [reply, {"text": "Said."}]})
    client = await Client.connect(bare.address, plugins=[PerdurePlugin(bare.settings)])
    await _registered(client)
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    worker = Worker(client, task_queue=queue, workflows=[Awaiting, Answering])
    loop = f"loop-{queue}"
    handle = await client.start_workflow(
        work, args=[*args, loop, model], id=queue, task_queue=queue
    )
    return handle, client, loop, worker


async def test_both_are_given_to_the_loop_and_kept(bare: Installation) -> None:
    handle, client, loop, worker = await _started(
        bare, Awaiting.run, "good", reply={"text": "Said."}
    )
    async with worker:
        assert await handle.result() == "Said."
    told = await client.get_workflow_handle(loop).describe()
    assert (await told.memo())["customer"] == {"id": 17}
    assert told.typed_search_attributes[CUSTOMER] == "c-17"
    assert told.typed_search_attributes[RANK] == 3
    assert told.typed_search_attributes[SearchAttributeKey.for_keyword("PerdureKind")] == "agent"
    # A loop continues as new once its task is opened, and so has them in its second execution too.
    assert told.run_id != (await _first_execution(client, loop))
    replayer = Replayer(workflows=[Awaiting], plugins=[PerdurePlugin(bare.settings)])
    await replayer.replay_workflow(await handle.fetch_history())


async def _first_execution(client: Client, loop: str) -> str:
    history = await client.get_workflow_handle(loop).fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes
    return started.first_execution_run_id


async def test_gates_are_answered_beside_a_memo(bare: Installation) -> None:
    ask = {"tool_calls": [{"name": "human.ask", "arguments": {"question": "Which colour?"}}]}
    handle, client, loop, worker = await _started(bare, Answering.run, reply=ask)
    async with worker:
        assert await handle.result() == "Said."
    told = await (await client.get_workflow_handle(loop).describe()).memo()
    assert told["customer"] == "c-17"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"goal": HALF}, r'goal: found "\ud83d"'),
        ({"goal": "x", "agent": {"max_iterations": HALF}}, r'agent.max_iterations: found "\ud83d"'),
        ({"goal": "x", "budget": {HALF: 1}}, r"\ud83d"),
        ({"goal": "x", "metadata": {"label": HALF}}, r"\ud83d"),
    ],
    ids=["a text", "a value", "a name", "a label"],
)
async def test_a_refusal_with_half_a_character_can_be_sent(
    given: dict[str, Any], told: str
) -> None:
    with pytest.raises(ApplicationError) as caught:
        await agent(**given)  # refused before it asks anything of a workflow
    failure = Failure()
    DataConverter.default.failure_converter.to_failure(
        caught.value, DataConverter.default.payload_converter, failure
    )
    assert (failure.application_failure_info.type, told in failure.message) == (
        "invalid_task", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("a name of ours", r'child\.memo: found the name "goal"; Perdure keeps answered_above, '),
        ("a name that is none", r"child\.memo: found the name 3"),
        ("a value that is no JSON", r"child\.memo\['customer'\]: found .*cannot write"),
        ("attributes untyped", r"child\.search_attributes: found .*TypedSearchAttributes\("),
        ("an attribute of ours", r"child\.search_attributes\['PerdureLabel'\]: names that begin"),
        ("an attribute of Temporal", r"\['TemporalThing'\]: names that begin"),
        ("no number", r"\['Rank'\]: found \"3\"; its key is one of INT"),
        ("no texts", r"\['Tags'\]: found \"ab\"; its key is one of KEYWORD_LIST"),
        ("no moment", r"\['Due'\]: found \"2026-01-01\"; its key is one of DATETIME"),
    ],
)
async def test_what_cannot_be_given_is_refused(bare: Installation, option: str, words: str) -> None:
    handle, _, _, worker = await _started(bare, Awaiting.run, option, reply={"text": "Said."})
    async with worker:
        with pytest.raises(WorkflowFailureError) as failed:
            await handle.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "invalid_task"
    assert re.search(words, str(failed.value.cause))
    started = [event async for event in handle.fetch_history_events()]
    assert not any(
        event.HasField("start_child_workflow_execution_initiated_event_attributes")
        for event in started
    )


WEIGHT = SearchAttributeKey.for_float("Weight")
DUE = SearchAttributeKey.for_datetime("Due")
TAGS = SearchAttributeKey.for_keyword_list("Tags")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (WEIGHT, 3, r"\['Weight'\]: found 3 \(int\); its key is one of DOUBLE"),
        (
            DUE,
            datetime.fromisoformat("2026-01-01"),
            r"\['Due'\]: .*; its key is one of DATETIME: Timezone must",
        ),
        (TAGS, {"a"}, r"\['Tags'\]: .* \(set\); its key is one of KEYWORD_LIST"),
    ],
)
def test_what_the_sdk_cannot_write_is_refused(key: Any, value: Any, words: str) -> None:
    """Otherwise it would fail each attempt of the workflow task."""
    with pytest.raises(ApplicationError, match=words):
        attributes_of(Child(**_pair(key, value)))


def test_values_of_the_types_of_their_keys_are_given() -> None:
    pairs = [(WEIGHT, 3.0), (DUE, datetime(2026, 1, 1, tzinfo=UTC)), (TAGS, ["a"]), (TAGS, ("a",))]
    for key, value in pairs:
        child = Child(**_pair(key, value))
        assert attributes_of(child) is child.search_attributes
