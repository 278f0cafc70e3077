"""Perdure inside a worker of somebody else's: their workflow awaits loops as its children."""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from installation import Installation
from listed import listed
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    PayloadCodec,
)
from temporalio.exceptions import ApplicationError
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    Replayer,
    Worker,
)
from waiting import eventually

from perdure import EndFacts, check, on_end, tool
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
from perdure.temporal import PerdurePlugin

with workflow.unsafe.imports_passed_through():
    from perdure.workflow import LoopFailed, agent, refine

SHORT = {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 4}}


@dataclass
class Order:
    """What the foreign workflow is about; its own type, its own queue."""

    item: str
    model: str
    task: dict[str, Any]


@activity.defn
async def charge(order: Order) -> str:
    """Their own activity."""
    return f"charged for {order.item}"


@workflow.defn
class OrderWorkflow:
    """Charges, then has a mail written by a loop."""

    @workflow.run
    async def run(self, order: Order) -> str:
        paid = await workflow.execute_activity(
            charge, order, start_to_close_timeout=timedelta(seconds=10)
        )
        result = await refine(
            "Be short.", rubric=[SHORT], models={"executor": order.model},
            refine={"plan": "off"}, **order.task,
        )  # fmt: skip
        return f"{paid}: {result.output}"


@workflow.defn
class Asking:
    """Runs an agent, and says how it failed."""

    @workflow.run
    async def run(self, order: Order) -> str:
        try:
            return str((await agent("Name a fruit.", **order.task)).output)
        except LoopFailed as failed:
            return f"failed: {failed.result.reason}"


@asynccontextmanager
async def foreign(
    site: Installation, *, converter: DataConverter | None = None, **given: Any
) -> AsyncGenerator[tuple[Client, str]]:
    """A worker of somebody else's with the plugin, over the stores of an installation."""
    plugin = PerdurePlugin(site.settings, **given)
    client = await Client.connect(
        site.address, plugins=[plugin], data_converter=converter or DataConverter.default
    )
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    async with Worker(
        client, task_queue=queue, workflows=[OrderWorkflow, Asking], activities=[charge]
    ):
        yield client, queue


async def _ordered(
    client: Client, queue: str, kind: Any, model: str = "", task: dict[str, Any] | None = None
) -> str:
    order = Order(item="a bottle", model=model, task=task or {})
    return await client.execute_workflow(kind, order, id=f"o-{queue}", task_queue=queue)


async def test_a_foreign_workflow_awaits_a_loop(bare: Installation) -> None:
    model = await bare.script({"replies": [{"text": "one two three four five"}, {"text": "Hi."}]})
    async with foreign(bare) as (client, queue):
        told = await _ordered(client, queue, OrderWorkflow.run, model)
    assert told == "charged for a bottle: Hi."
    rows = await bare.parts.stores.records.find_runs(roots=True)
    assert [(one.kind, one.outcome) for one in rows] == [("refine", "accepted")]
    assert rows[0].id in await listed(bare.gateway)


class Counting(Interceptor):
    """Counts the activities of a worker."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        seen = self.seen

        class Inbound(ActivityInboundInterceptor):
            async def execute_activity(self, input: ExecuteActivityInput) -> Any:
                seen.append(activity.info().activity_type)
                return await super().execute_activity(input)

        return Inbound(next)


async def test_it_goes_with_another_plugin_and_replays(bare: Installation) -> None:
    model = await bare.script({"replies": [{"text": "Hi."}]})
    counting = Counting()
    plugins = [SimplePlugin("theirs", interceptors=[counting]), PerdurePlugin(bare.settings)]
    client = await Client.connect(bare.address, plugins=plugins)
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[OrderWorkflow], activities=[charge]):
        assert await _ordered(client, queue, OrderWorkflow.run, model)
    # The steps of the loop are ours: theirs sees its own work, and the task that is opened there.
    assert counting.seen == ["charge", "open_task"]
    history = await client.get_workflow_handle(f"o-{queue}").fetch_history()
    await Replayer(workflows=[OrderWorkflow], plugins=plugins).replay_workflow(history)


async def test_a_failed_loop_is_caught_with_its_result(
    bare: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    model = await bare.script({"replies": [{"error": "authentication"}]})
    async with foreign(bare) as (client, queue):
        told = await _ordered(client, queue, Asking.run, task={"models": {"executor": model}})
    assert told == "failed: model_error"
    lines = [one for one in caplog.records if "model_authentication" in one.getMessage()]
    assert len(lines) == 1
    assert not [one for one in caplog.records if one.exc_info], "no traceback in their log"


async def test_a_bad_task_fails_before_anything_is_started(bare: Installation) -> None:
    async with foreign(bare) as (client, queue):
        with pytest.raises(WorkflowFailureError) as caught:
            await _ordered(client, queue, Asking.run, task={"budgt": {"tokens": 1}})
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "invalid_task"
    assert "budgt" in caught.value.cause.message
    assert not await bare.parts.stores.records.find_runs()


class Upside(PayloadCodec):
    """A codec of their own: bytes backwards."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload(metadata={"encoding": b"upside"}, data=one.SerializeToString()[::-1])
            for one in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload.FromString(one.data[::-1]) for one in payloads]


class Shouting(EncodingPayloadConverter):
    """A payload converter of their own: their orders travel as text of one kind."""

    @property
    def encoding(self) -> str:
        return "text/order"

    def to_payload(self, value: Any) -> Payload | None:
        if not isinstance(value, Order):
            return None
        text = repr((value.item, value.model, value.task))
        return Payload(metadata={"encoding": b"text/order"}, data=text.encode())

    def from_payload(self, payload: Payload, type_hint: Any = None) -> Any:
        item, model, task = eval(payload.data, {})
        return Order(item=item.upper(), model=model, task=task)


class Theirs(CompositePayloadConverter):
    def __init__(self) -> None:
        super().__init__(Shouting(), *DefaultPayloadConverter.default_encoding_payload_converters)


CONVERTERS = {
    "a codec": (replace(DataConverter.default, payload_codec=Upside()), "a bottle"),
    "a payload converter": (
        replace(DataConverter.default, payload_converter_class=Theirs), "A BOTTLE",
    ),
    "both": (
        replace(DataConverter.default, payload_converter_class=Theirs, payload_codec=Upside()),
        "A BOTTLE",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("converter", "item"), CONVERTERS.values(), ids=CONVERTERS.keys())
async def test_their_converter_and_codec_are_kept(
    bare: Installation, converter: DataConverter, item: str
) -> None:
    model = await bare.script({"replies": [{"text": "Hi."}]})
    async with foreign(bare, converter=converter) as (client, queue):
        told = await _ordered(client, queue, OrderWorkflow.run, model)
    assert told == f"charged for {item}: Hi."


def test_two_that_would_seal_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
    plugin = PerdurePlugin(Settings.load(home=tmp_path, encryption_key="env:KEY"))
    theirs = replace(DataConverter.default, payload_codec=Upside())
    with pytest.raises(InvalidInput, match="both would encrypt"):
        plugin.configure_client({"data_converter": theirs})  # type: ignore[typeddict-item]


async def test_tools_checks_and_hooks_are_brought_in_code(bare: Installation) -> None:
    weighed: list[str] = []

    @tool(name="shop.weigh", access="read")
    def weigh(item: str) -> str:
        """Weigh an item.

        Args:
            item: what.
        """
        weighed.append(item)
        return f"{item} weighs 2 kg"

    @check(name="weighty")
    def weighty(output: str) -> float:
        """The output says how heavy it is."""
        return 1.0 if "2 kg" in output else 0.0

    ends: list[str] = []

    @on_end(name="shop.shipped")
    def shipped(facts: EndFacts) -> None:
        ends.append(f"{facts.outcome}: {facts.output}")

    ask = {"tool_calls": [{"name": "shop.weigh", "arguments": {"item": "bottle"}}]}
    model = await bare.script({"replies": [ask, {"text": "It weighs 2 kg."}]})
    rubric = [{"name": "weight", "evaluator": {"check": "weighty"}}]
    task = {
        "goal": "Weigh it.", "rubric": rubric, "models": {"executor": model},
        "refine": {"plan": "off"}, "tools": {"access": "readonly", "allow": ["shop.weigh"]},
        "hooks": {"on_end": ["shop.shipped"]},
    }  # fmt: skip
    async with foreign(bare, tools=[weigh], checks=[weighty], hooks=[shipped]) as (client, queue):
        result = await client.execute_workflow(
            "RefineLoop", task, id=f"w-{queue}", task_queue=queue
        )
    assert isinstance(result, dict)
    assert (result["outcome"], result["output"]) == ("accepted", "It weighs 2 kg.")
    assert (weighed, ends) == (["bottle"], ["accepted: It weighs 2 kg."])


async def test_two_workers_share_what_serves_the_loops(bare: Installation) -> None:
    model = await bare.script({"replies": [{"text": "A plum.", "times": 2}]})
    plugin = PerdurePlugin(bare.settings)
    client = await Client.connect(bare.address, plugins=[plugin])
    first, second = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("first", "second"))
    task = {"models": {"executor": model}}
    async with Worker(client, task_queue=first, workflows=[Asking], activities=[charge]):
        async with Worker(client, task_queue=second, workflows=[Asking], activities=[charge]):
            assert await _ordered(client, second, Asking.run, task=task) == "A plum."
        assert await _ordered(client, first, Asking.run, task=task) == "A plum."


async def test_a_store_that_cannot_be_opened_fails_the_worker(
    bare: Installation, tmp_path: Path
) -> None:
    settings = bare.settings.model_copy(update={"home": tmp_path / "file" / "home"})
    (tmp_path / "file").touch()
    client = await Client.connect(bare.address, plugins=[PerdurePlugin(settings)])
    worker = Worker(client, task_queue="never", workflows=[Asking], activities=[charge])
    with pytest.raises(Exception, match="file"):
        await worker.run()


@pytest.mark.slow
async def test_a_run_survives_kills_of_the_foreign_worker(
    bare: Installation, tmp_path: Path
) -> None:
    """The process of somebody else's worker is killed twice while the loop is at work."""
    slow = {"text": "Hi.", "delay_s": 2.0}
    model = await bare.script(
        {"replies": [{"text": "one two three four five", "delay_s": 2.0}, slow]}
    )
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    order = Order(item="a bottle", model=model, task={"id": f"mail-{queue}"})
    client = await Client.connect(bare.address)
    run = await client.start_workflow("OrderWorkflow", order, id=queue, task_queue=queue)
    for calls in (1, 2):
        process = await _process(bare, queue)
        await eventually(partial(_asked, bare, f"mail-{queue}", calls))
        process.kill()
        await process.wait()
    process = await _process(bare, queue)
    try:
        assert await run.result() == "charged for a bottle: Hi."
    finally:
        process.terminate()
        await process.wait()


async def _asked(bare: Installation, run: str, calls: int) -> bool:
    return await bare.replies_taken(run) >= calls


async def _process(bare: Installation, queue: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", __file__, queue,
        env={
            **os.environ,
            **bare.settings.as_environment(),
            "TEMPORAL_ADDRESS": bare.address,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )  # fmt: skip


async def _serve(queue: str) -> None:
    plugin = PerdurePlugin()
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], plugins=[plugin])
    await Worker(client, task_queue=queue, workflows=[OrderWorkflow], activities=[charge]).run()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
