"""Programs that start runs need not have the code that a worker brings: the workers are asked."""

import uuid
from collections.abc import AsyncGenerator

import pytest
from installation import Installation
from temporalio.client import Client as TemporalClient
from temporalio.worker import Worker

from perdure import Client, EndFacts, check, on_end, tool
from perdure.domain.foundation.errors import InvalidInput
from perdure.temporal import PerdurePlugin

ENDS: list[str] = []


@tool(name="shop.stock", access="write")
def stock(item: str) -> int:
    """How many of an item are left."""
    return len(item)


@check(name="shop.polite")
def polite(output: str) -> bool:
    return "thank" in output.lower()


@on_end(name="shop.tell")
def tell(facts: EndFacts) -> None:
    ENDS.append(facts.run)


@pytest.fixture
async def client(bare: Installation, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Client]:
    """Of a process without a plugin, beside a worker with one."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", bare.address)
    plugin = PerdurePlugin(bare.settings, tools=[stock], checks=[polite], hooks=[tell])
    theirs = await TemporalClient.connect(bare.address, plugins=[plugin])
    async with (
        Worker(theirs, task_queue=f"orders-{uuid.uuid4().hex[:8]}"),
        await Client.connect(start=False, home=bare.home) as client,
    ):
        yield client


async def test_a_client_starts_runs_with_what_only_the_worker_has(
    client: Client, bare: Installation
) -> None:
    ask = {"tool_calls": [{"name": "shop.stock", "arguments": {"item": "lid"}}]}
    model = await bare.script(
        {"replies": [ask, {"times": 9, "text": "Three are left, thank you."}]}
    )
    result = await client.run(
        {
            "kind": "refine",
            "goal": "Say how many lids are left.",
            "models": {"executor": model},
            "rubric": [{"name": "polite", "evaluator": {"check": "shop.polite"}}],
            "tools": {"access": "full", "allow": ["shop.stock"]},
            "hooks": {"on_end": ["shop.tell"]},
            "refine": {"plan": "off"},
        }
    )
    assert (result.outcome, result.output) == ("accepted", "Three are left, thank you.")
    assert result.id in ENDS


async def test_what_nobody_has_is_still_refused_before_anything_starts(client: Client) -> None:
    task = {
        "kind": "refine",
        "goal": "Say it.",
        "models": {"executor": "claude-opus-4-5"},
        "rubric": [{"name": "polite", "evaluator": {"check": "shop.polit"}}],
        "tools": {"access": "full", "allow": ["shop.stok"]},
        "hooks": {"on_end": ["shop.tel"]},
    }
    with pytest.raises(InvalidInput) as refused:
        await client.start(task)
    for nearest in ("shop.polite", "shop.stock", "shop.tell"):
        assert f"Did you mean {nearest}?" in str(refused.value)
