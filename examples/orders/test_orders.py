"""The order workflow, tested without a key: its model is played."""

import pytest
from orders import FALLBACK, QUEUE, Order, OrderWorkflow, charge, send
from temporalio.worker import Replayer, Worker

from perdure.testing import PerdureEnvironment, ScriptedModel

SHORT = "Thanks for the bottle."
GOOD = "Thank you. Your steel bottle is paid for and leaves our shop today."
REFUSED = {"error": "authentication", "times": 9}
CASES = {
    "the mail is improved until it fits": (ScriptedModel(SHORT, GOOD), GOOD),
    "without a model the shop has its own words": (ScriptedModel(REFUSED), FALLBACK),
}


@pytest.mark.parametrize(("model", "mail"), CASES.values(), ids=CASES.keys())
async def test_an_order_is_confirmed(model: ScriptedModel, mail: str) -> None:
    async with PerdureEnvironment.start() as environment:
        order = Order(id="1", item="steel bottle", model=await environment.model(model))
        async with Worker(
            environment.client,
            task_queue=QUEUE,
            workflows=[OrderWorkflow],
            activities=[charge, send],
        ):
            run = await environment.client.start_workflow(
                OrderWorkflow.run, order, id="order-1", task_queue=QUEUE
            )
            await run.signal(OrderWorkflow.approve)
            assert await run.result() == mail
        # A change of the workflow that breaks orders on their way would be seen here.
        replayer = Replayer(workflows=[OrderWorkflow], plugins=[environment.plugin])
        await replayer.replay_workflow(await run.fetch_history())
