"""The order workflow, tested without a key: its model is played."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from orders import FALLBACK, QUEUE, Order, OrderWorkflow, charge, send
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError
from temporalio.worker import Replayer, Worker

from perdure.testing import PerdureEnvironment, ScriptedModel

SHORT = "Thanks for the bottle."
GOOD = "Thank you. Your steel bottle is paid for and leaves our shop today."
REFUSED = {"error": "authentication", "times": 9}
CASES = {
    "the mail is improved until it fits": (ScriptedModel(SHORT, GOOD), GOOD),
    "without a model the shop has its own words": (ScriptedModel(REFUSED), FALLBACK),
}


@asynccontextmanager
async def approved_order(
    environment: PerdureEnvironment, model: ScriptedModel
) -> AsyncGenerator[WorkflowHandle[OrderWorkflow, str]]:
    """An order under way, whose mail may go out once it is written."""
    order = Order(id="1", item="steel bottle", model=await environment.model(model))
    async with Worker(
        environment.client, task_queue=QUEUE, workflows=[OrderWorkflow], activities=[charge, send]
    ):
        run = await environment.client.start_workflow(
            OrderWorkflow.run, order, id="order-1", task_queue=QUEUE
        )
        await run.signal(OrderWorkflow.approve)
        yield run


@pytest.mark.parametrize(("model", "mail"), CASES.values(), ids=CASES.keys())
async def test_an_order_is_confirmed(model: ScriptedModel, mail: str) -> None:
    async with PerdureEnvironment.start() as environment:
        async with approved_order(environment, model) as run:
            assert await run.result() == mail
        # A change of the workflow that breaks orders on their way would be seen here.
        replayer = Replayer(workflows=[OrderWorkflow], plugins=[environment.plugin])
        await replayer.replay_workflow(await run.fetch_history())


async def test_a_cancelled_order_sends_nothing() -> None:
    model = ScriptedModel(SHORT, {"text": GOOD, "delay_s": 600})
    async with PerdureEnvironment.start() as environment:
        async with approved_order(environment, model) as run:
            async for event in run.fetch_history_events(wait_new_event=True):
                if event.HasField("child_workflow_execution_started_event_attributes"):
                    break
            await run.cancel()
            with pytest.raises(WorkflowFailureError) as ended:
                await run.result()
            assert isinstance(ended.value.cause, CancelledError)
            loop = environment.client.get_workflow_handle("mail-1", result_type=dict)
            assert (await loop.result())["outcome"] == "stopped"
        done = [
            event.activity_task_scheduled_event_attributes.activity_type.name
            for event in (await run.fetch_history()).events
        ]
        assert [name for name in done if name] == ["charge"]
