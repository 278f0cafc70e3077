"""What goes wrong around the step that opens a task which a plain Temporal client sent."""

import asyncio
import uuid
from contextlib import suppress
from typing import Any

import pytest
from installation import Installation
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import TerminatedError, WorkflowAlreadyStartedError
from waiting import eventually

Handle = WorkflowHandle[object, object]


@pytest.fixture
async def plain(bare: Installation) -> Client:
    """A client that knows nothing of Perdure."""
    return await Client.connect(bare.address)


async def _waiting(bare: Installation, plain: Client, **more: Any) -> Handle:
    """A run that no worker has begun to open."""
    model = await bare.script({"replies": [{"text": "An apple."}]})
    task = {"goal": "Name a fruit.", "models": {"executor": model}}
    name = f"early-{uuid.uuid4().hex[:8]}"
    return await plain.start_workflow(
        "AgentLoop", task, id=name, task_queue=bare.settings.task_queue, **more
    )


# What is said before a worker is there, and how the run ends then.
SAID: dict[str, tuple[str, Any, str]] = {
    "a graceful stop": ("stop", {"mode": "graceful"}, "stopped"),
    "a stop at once": ("stop", {"mode": "now"}, "stopped"),
    "an answer to no gate": ("answer", {"gate": "g1", "choice": "approve"}, "accepted"),
    "more budget": ("amend", {"budget": {"tokens": 100_000}}, "accepted"),
    "an empty signal": ("", {}, "accepted"),
    "no argument": ("answer", None, "accepted"),
    "rubbish": ("amend", ["rubbish"], "accepted"),
    "an input": ("add_input", {"text": "A red one."}, "accepted"),
}


@pytest.mark.parametrize(("verb", "given", "outcome"), SAID.values(), ids=SAID.keys())
async def test_a_signal_before_opening_never_harms(
    bare: Installation, plain: Client, verb: str, given: Any, outcome: str
) -> None:
    run = await _waiting(bare, plain)
    await run.signal(verb or "empty", args=[] if given is None else [given])
    async with bare.worker():
        result = await run.result()
    assert isinstance(result, dict)
    assert result["outcome"] == outcome
    row = await bare.parts.stores.records.run(run.id)
    assert row is not None
    assert row.outcome == outcome


async def test_a_cancelled_start_ends_with_a_result(bare: Installation, plain: Client) -> None:
    run = await _waiting(bare, plain)
    await run.cancel()
    async with bare.worker():
        result = await run.result()
    assert isinstance(result, dict)
    assert (result["outcome"], result["spend"]["tokens"]) == ("stopped", 0)


async def test_a_terminated_start_leaves_its_id_free(bare: Installation, plain: Client) -> None:
    run = await _waiting(bare, plain)
    await run.terminate("a test")
    async with bare.worker():
        with pytest.raises(WorkflowFailureError) as caught:
            await run.result()
        assert isinstance(caught.value.cause, TerminatedError)
        model = await bare.script({"replies": [{"text": "A pear."}]})
        again = await plain.start_workflow(
            "AgentLoop", {"goal": "Name a fruit.", "models": {"executor": model}},
            id=run.id, task_queue=bare.settings.task_queue,
        )  # fmt: skip
        result = await again.result()
    assert isinstance(result, dict)
    assert result["output"] == "A pear."


async def test_two_clients_start_one_run(bare: Installation, plain: Client) -> None:
    other = await Client.connect(bare.address)
    model = await bare.script({"replies": [{"text": "An apple."}, {"text": "A second."}]})
    task = {"goal": "Name a fruit.", "models": {"executor": model}}
    name = f"twice-{uuid.uuid4().hex[:8]}"

    async def started(client: Client) -> bool:
        with suppress(WorkflowAlreadyStartedError):
            await client.start_workflow(
                "AgentLoop", task, id=name, task_queue=bare.settings.task_queue
            )
            return True
        return False

    assert sorted(await asyncio.gather(started(plain), started(other))) == [False, True]
    async with bare.worker():
        await plain.get_workflow_handle(name).result()
    assert await bare.replies_taken(name) == 1


async def test_an_update_before_opening_is_refused_in_words(
    bare: Installation, plain: Client
) -> None:
    run = await _waiting(bare, plain, start_signal="pause")
    update = asyncio.create_task(run.execute_update("answer", {"gate": "g1", "choice": "approve"}))
    async with bare.worker():
        with pytest.raises(WorkflowUpdateFailedError) as caught:
            await update

        async def paused() -> bool:
            return (await bare.gateway.status(run.id)).lifecycle == "paused"

        await eventually(paused)
        await run.signal("resume")
        await run.result()
    assert str(caught.value.cause)
