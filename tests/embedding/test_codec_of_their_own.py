"""A run that somebody else's codec seals, looked at without that codec and with it."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from installation import Installation, installation
from page_visit import visitor
from rest import served
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.worker import Worker
from upside_codec import PLACE, Turning
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed, StoreError
from perdure.domain.run.messages import Answer, Pause, Resume
from perdure.interfaces.run_tree import open_gates
from perdure.interfaces.services import Collected
from perdure.operations.gc import collect
from perdure.temporal import PerdurePlugin

ASK = {"tool_calls": [{"name": "human.ask", "arguments": {"question": "Which colour?"}}]}


async def test_a_run_under_their_codec_is_told_in_words_and_read_with_it(
    bare: Installation,
) -> None:
    model = await bare.script({"replies": [ASK, {"text": "Blue, then."}]})
    client = await Client.connect(
        bare.address,
        plugins=[PerdurePlugin(bare.settings)],
        data_converter=replace(DataConverter.default, payload_codec=Turning()),
    )
    queue = f"orders-{uuid.uuid4().hex[:8]}"
    task = {
        "goal": "Paint it.", "models": {"executor": model},
        "tools": {"access": "full", "allow": ["human.ask"]},
    }  # fmt: skip
    async with Worker(client, task_queue=queue, workflows=[], activities=[]):
        handle = await client.start_workflow("AgentLoop", task, id=queue, task_queue=queue)
        await _without_the_codec(bare, queue)
        async with installation(bare.home, bare.address, payload_codec=PLACE) as reading:
            await _with_the_codec(reading, queue)
        result = await handle.result()
    assert isinstance(result, dict)
    assert result["output"] == "Blue, then."


async def _without_the_codec(site: Installation, run: str) -> None:
    async def waits() -> bool:
        return (await site.status(run)).lifecycle == "waiting"

    await eventually(waits)
    status = await site.status(run)
    assert (status.source, status.goal) == ("store", "Paint it.")
    assert "encoded as upside" in (status.explanation or "")
    assert "PERDURE_PAYLOAD_CODEC" in (status.trouble or "")

    async def listed() -> bool:
        return run in (await site.gateway.gates()).unread

    await eventually(listed)
    assert "encoded as upside" in (await site.gateway.gates()).reasons[run]
    assert "encoded as upside" in (await open_gates(site.gateway, run)).reasons[run]
    async with served(site) as rest, visitor(rest, await rest.token("admin")) as person:
        inbox = await person.see("/inbox")
    assert f"{run}</a> waits, and what it asks is not known here" in inbox
    assert "encoded as upside" in inbox
    assert "PERDURE_PAYLOAD_CODEC" in inbox
    assert "its worker does not answer" not in inbox
    assert "Nothing waits for you" not in inbox
    with pytest.raises(StoreError, match=r"answered `pause`.*encoded as upside"):
        await site.gateway.verb(run, Pause())
    # What the run needs is sealed: a collection that cannot see it must drop nothing.
    with pytest.raises(NotAllowed, match=rf"{run} needs is unknown.*encoded as upside"):
        await _collected(site)


async def _with_the_codec(site: Installation, run: str) -> None:
    status = await site.status(run)
    assert (status.source, status.lifecycle) == ("run", "paused")
    await site.gateway.verb(run, Resume())
    (asked,) = [one.gate for one in (await site.gateway.gates()).gates if one.run == run]
    assert asked.prompt.startswith("Which colour?")
    await site.gateway.verb(run, Answer(gate=asked.name, text="Blue"))
    assert (await _collected(site)).kept > 0
    assert (await site.gateway.result(run)).output == "Blue, then."


async def _collected(site: Installation) -> Collected:
    later = datetime.now(UTC) + timedelta(days=2)
    parts = site.parts
    return await collect(parts.stores, site.gateway, parts.workspaces, now=later, dry_run=False)
