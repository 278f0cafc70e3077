"""Activities of somebody else's worker as tools: their queue, their options, our approval."""

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from agent_runs import results
from installation import Installation
from pydantic import JsonValue
from temporalio import activity
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from waiting import eventually

from perdure.activities.tool_calls import AskedCalls
from perdure.adapters.tools.host import LocalToolHost
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.activity_messages import ToolCallRequest
from perdure.domain.run.result import RunResult
from perdure.domain.tools.definitions import (
    HANDED_OVER_BYTES,
    AccessClass,
    ToolGrant,
    ToolInvocation,
)
from perdure.embedding.activity_targets import activity_type
from perdure.embedding.activity_tools import placed_tool
from perdure.extending.tool_decorator import Tool, ToolContext
from perdure.temporal import PerdurePlugin, activity_check, activity_tool

QUEUE = "theirs"


@dataclass
class Order:
    """A type of their own, in the arguments of an activity."""

    item: str
    pieces: int = 1


class Shop:
    """Their activities; counts what was done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    @activity.defn
    async def charge(self, order: Order, currency: str = "EUR") -> dict[str, str]:
        """Charge a customer.

        Args:
            order: what is paid for.
            currency: how.
        """
        info = activity.info()
        self.done.append(f"{order.pieces} {order.item} in {currency}, attempt {info.attempt}")
        if order.item == "nothing":
            raise ApplicationError("there is nothing to charge for", type="Empty")
        if order.item == "slowly":
            await asyncio.sleep(60)
        return {"receipt": f"r-{order.item}", "queue": info.task_queue}


class Plain:
    """What no converter takes."""


GIVEN: dict[str, object] = {
    "large": "x" * 5_000_000,
    "strange": [Plain()],
    "endless": {"share": float("nan"), "limits": [float("-inf"), float("inf")]},
    "nan": float("nan"),
}


@activity.defn
async def give(what: str) -> Any:
    """Give something."""
    return GIVEN[what]


ONCE: dict[str, object] = {}
TWICE = {"retry_policy": RetryPolicy(maximum_attempts=2, initial_interval=timedelta(seconds=0.01))}
BRIEFLY = {"start_to_close_timeout": timedelta(seconds=0.3)}
CASES = {
    "it runs on their queue with their types": (
        {"order": {"item": "bottle", "pieces": 2}}, ONCE,
        ["2 bottle in EUR, attempt 1"], "ok", '"receipt": "r-bottle"',
    ),
    "a failed one is told in words": (
        {"order": {"item": "nothing"}}, ONCE,
        ["1 nothing in EUR, attempt 1"], "error", "Empty: there is nothing to charge for",
    ),
    "it is tried again as its retry policy says": (
        {"order": {"item": "nothing"}, "currency": "CHF"}, TWICE,
        ["1 nothing in CHF, attempt 1", "1 nothing in CHF, attempt 2"], "error", "Empty",
    ),
    "a lost one has an uncertain effect": (
        {"order": {"item": "slowly"}}, BRIEFLY,
        ["1 slowly in EUR, attempt 1"], "effect_uncertain", "look before you call it again",
    ),
    "wrong arguments run nothing": (
        {"order": {"piece": 1}}, ONCE, [], "error", "not valid",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "options", "done", "outcome", "told"), CASES.values(), ids=CASES.keys()
)
async def test_an_activity_is_a_tool(
    bare: Installation,
    arguments: Mapping[str, object],
    options: dict[str, object],
    done: list[str],
    outcome: str,
    told: str,
) -> None:
    shop = Shop()
    result = await _run(bare, shop, arguments, options)
    (block,) = await results(bare, result)
    assert (shop.done, block.outcome) == (done, outcome)
    assert told in block.text
    assert result.output == "Done."


@pytest.mark.parametrize(
    ("kind", "done", "outcome", "told"),
    [
        ("worker_shutdown", ["1 bottle in EUR, attempt 1"], "ok", "r-bottle"),
        ("not_allowed", [], "error", "not_run: the worker was stopped"),
    ],
    ids=["made again", "for good"],
)
async def test_a_worker_that_stops_while_it_reads_the_arguments_fails_no_call(
    bare: Installation,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    done: list[str],
    outcome: str,
    told: str,
) -> None:
    """The activity has not begun, so no effect can come twice."""
    shop, find, ends = Shop(), AskedCalls.find, [kind, kind]

    async def stopped(self: AskedCalls, step: ToolCallRequest) -> tuple[ToolInvocation, ToolGrant]:
        if ends:
            raise ApplicationError("the worker was stopped", type=ends.pop(), non_retryable=True)
        return await find(self, step)

    monkeypatch.setattr(AskedCalls, "find", stopped)
    result = await _run(bare, shop, {"order": {"item": "bottle"}}, {"access": "write"})
    (block,) = await results(bare, result)
    assert (shop.done, block.outcome) == (done, outcome)
    assert told in block.text


async def test_it_runs_after_it_is_approved_and_not_before(bare: Installation) -> None:
    shop = Shop()

    async def approve(client: Client, run: str) -> None:
        await eventually(lambda: _asks(bare, run))
        (gate,) = (await bare.status(run)).gates
        assert (gate.subject, shop.done) == ("charge", [])
        await client.get_workflow_handle(run).signal("approve", gate.name)

    result = await _run(
        bare, shop, {"order": {"item": "bottle"}}, {"access": "write", "approve": True}, approve
    )
    (block,) = await results(bare, result)
    assert (shop.done, block.outcome) == (["1 bottle in EUR, attempt 1"], "ok")


@pytest.mark.parametrize("begins", ["the worker that has it", "another one"])
async def test_a_worker_that_never_runs_takes_no_calls(bare: Installation, begins: str) -> None:
    shop = Shop()
    made = activity_tool(shop.charge, schedule_to_close_timeout=timedelta(seconds=30))
    plugin = PerdurePlugin(bare.settings, tools=[made])
    client = await Client.connect(bare.address, plugins=[plugin])
    idle, queue, other = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("idle", "shop", "other"))
    never = Worker(client, task_queue=idle, activities=[shop.charge])
    has_it = Worker(client, task_queue=queue, activities=[shop.charge])
    workers = [has_it, Worker(client, task_queue=other, activities=[give])]
    ask = {"tool_calls": [{"name": "charge", "arguments": {"order": {"item": "bottle"}}}]}
    task = {
        "goal": "Charge.", "tools": {"access": "full", "allow": ["charge"]},
        "models": {"executor": await bare.script({"replies": [ask, {"text": "Done."}]})},
    }  # fmt: skip
    first, second = workers if begins == "the worker that has it" else reversed(workers)
    async with first, second:
        await client.execute_workflow("AgentLoop", task, id=queue, task_queue=queue)
        (block,) = await results(bare, await bare.gateway.result(queue))
    assert never.task_queue == idle
    assert f'"queue": "{queue}"' in block.text


UNCERTAIN = "look before you call it again"
RESULTS = {
    "read, too large": ("large", "read", "error", "Ask it for less"),
    "written, too large": ("large", "write", "effect_uncertain", UNCERTAIN),
    "read, cannot be encoded": ("strange", "read", "error", "cannot be encoded"),
    "written, cannot be encoded": ("strange", "write", "effect_uncertain", UNCERTAIN),
}
NO_JSON = {"some": ("endless", '"share": "NaN"'), "alone": ("nan", "NaN")}


@pytest.mark.parametrize(
    "converter", [DataConverter.default, pydantic_data_converter], ids=["default", "pydantic"]
)
@pytest.mark.parametrize(
    ("what", "access", "outcome", "told"), RESULTS.values(), ids=RESULTS.keys()
)
async def test_a_result_that_does_not_arrive_is_told_truthfully(
    bare: Installation,
    what: str,
    access: AccessClass,
    outcome: str,
    told: str,
    converter: DataConverter,
) -> None:
    made = activity_tool(give, access=access)
    result = await _run_tool(bare, made, {"what": what}, [give], converter=converter)
    (block,) = await results(bare, result)
    assert block.outcome == outcome
    assert told in block.text
    assert (UNCERTAIN in block.text) is (outcome == "effect_uncertain")


@pytest.mark.parametrize(("what", "told"), NO_JSON.values(), ids=NO_JSON.keys())
async def test_numbers_that_are_no_json_keep_their_names(
    bare: Installation, what: str, told: str
) -> None:
    result = await _run_tool(bare, activity_tool(give), {"what": what}, [give])
    (block,) = await results(bare, result)
    assert block.outcome == "ok"
    assert told in block.text
    assert "null" not in block.text


async def _asks(site: Installation, run: str) -> bool:
    return bool((await site.status(run)).gates)


async def _run(
    site: Installation,
    shop: Shop,
    arguments: Mapping[str, object],
    options: Mapping[str, object],
    meanwhile=None,
) -> RunResult:
    made = activity_tool(shop.charge, **options)  # type: ignore[arg-type]
    return await _run_tool(site, made, arguments, [shop.charge], meanwhile=meanwhile)


async def _run_tool(
    site: Installation,
    made: Tool[..., object],
    arguments: Mapping[str, object],
    activities: Sequence[Callable[..., object]],
    *,
    converter: DataConverter = DataConverter.default,
    meanwhile=None,
) -> RunResult:
    name = made.fact.name
    plugin = PerdurePlugin(site.settings, tools=[made])
    client = await Client.connect(site.address, plugins=[plugin], data_converter=converter)
    queue = run = f"shop-{uuid.uuid4().hex[:8]}"
    ask = {"tool_calls": [{"name": name, "arguments": arguments}]}
    model = await site.script({"replies": [ask, {"text": "Done."}]})
    task = {
        "goal": "Charge.", "models": {"executor": model},
        "tools": {"access": "full", "allow": [name]},
    }  # fmt: skip
    async with Worker(client, task_queue=queue, activities=activities):
        started = await client.start_workflow("AgentLoop", task, id=run, task_queue=queue)
        if meanwhile is not None:
            await meanwhile(client, run)
        await started.result()
        return await site.gateway.result(run)


def test_its_schema_is_that_of_the_signature() -> None:
    fact = activity_tool(Shop().charge, task_queue=QUEUE).fact
    assert (fact.name, fact.description) == ("charge", "Charge a customer.")
    assert fact.parameters["required"] == ["order"]
    assert fact.activity is not None
    assert (fact.activity.queue, fact.activity.attempts) == (QUEUE, 1)


async def test_arguments_that_would_travel_by_reference_are_refused() -> None:
    host = LocalToolHost([activity_tool(Shop().charge, task_queue=QUEUE)])
    arguments: dict[str, JsonValue] = {"order": {"item": "x" * HANDED_OVER_BYTES}}
    call = ToolInvocation(
        run="r", call_id="c", idempotency_key="r/1/c", name="charge", arguments=arguments
    )
    output = await host.call(call, ToolGrant(root="/", allowed=("charge",)))
    assert (output.outcome, output.code, output.handed_over) == (
        "error", "invalid_arguments", None,
    )  # fmt: skip
    assert "Send less" in output.text


def plain(item: str) -> str:
    """No activity."""
    return item


@activity.defn
async def asks_for_context(item: str, context: ToolContext) -> str:
    """It wants what only plain functions have."""
    return item + context.run


@pytest.mark.parametrize(
    ("function", "words"),
    [(plain, "is no activity"), (asks_for_context, "belongs to plain functions")],
    ids=["a plain function", "a tool context"],
)
def test_what_cannot_be_a_tool_is_refused(function, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        activity_tool(function)


def test_it_is_placed_on_the_queue_of_the_worker_that_has_it() -> None:
    made = activity_tool(Shop().charge)
    assert activity_type(Shop().charge) == "charge"
    target = placed_tool(
        made, [("other", frozenset()), (QUEUE, frozenset({"charge"}))]
    ).fact.activity
    assert target is not None
    assert target.queue == QUEUE
    with pytest.raises(InvalidInput, match="No worker has the activity 'charge'"):
        placed_tool(made, [("other", frozenset({"send"}))])


SHORT_LAST = RetryPolicy(
    maximum_attempts=3,
    initial_interval=timedelta(seconds=10),
    maximum_interval=timedelta(seconds=5),
)


@pytest.mark.parametrize("make", [activity_tool, activity_check])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start_to_close_timeout": timedelta(0)}, "start_to_close_timeout=0:00:00"),
        ({"heartbeat_timeout": timedelta(seconds=-1)}, "charge has heartbeat_timeout=-1 day"),
        ({"schedule_to_close_timeout": timedelta(days=-1)}, "schedule_to_close_timeout=-1 day"),
        ({"retry_policy": SHORT_LAST}, "Maximum interval cannot be less"),
    ],
    ids=["one attempt", "a heartbeat", "all attempts", "a retry policy"],
)
def test_options_that_a_loop_could_never_schedule_are_refused(make, options, words: str) -> None:
    """In a loop, each of them fails the workflow task for ever."""
    with pytest.raises(InvalidInput, match=words):
        make(Shop().charge, **options)
