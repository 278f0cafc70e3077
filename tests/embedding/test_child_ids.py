"""Loops without an id of their own, below workflows with any id."""

import pytest
from installation import Installation
from temporalio.worker import Replayer

from perdure.domain.foundation.names import LONGEST_ID, is_usable_id, usable_id
from perdure.temporal import PerdurePlugin
from tests.embedding.test_temporal_plugin import Asking, Order, foreign

ABOVE = ["tenants/7/mail 1", "Bestellung ü €", "o" * 200, "注文", "-mail", "@mail", "mail-1"]


@pytest.mark.parametrize("above", ABOVE)
def test_an_id_is_made_of_any_id_above(above: str) -> None:
    suffix = "-agent-0123abcd"
    made = usable_id(above, suffix)
    assert is_usable_id(made)
    assert made.endswith(suffix.lstrip("-"))
    assert len(made) <= LONGEST_ID


@pytest.mark.parametrize("above", ABOVE)
async def test_a_loop_runs_below_a_workflow_with_any_id(bare: Installation, above: str) -> None:
    model = await bare.script({"replies": [{"text": "A plum."}]})
    async with foreign(bare) as (client, queue):
        order = Order(item="a bottle", model="", task={"models": {"executor": model}})
        run = await client.start_workflow(
            Asking.run, order, id=f"{above}/{queue}", task_queue=queue
        )
        assert await run.result() == "A plum."
        history = await run.fetch_history()
    replayer = Replayer(workflows=[Asking], plugins=[PerdurePlugin(bare.settings)])
    await replayer.replay_workflow(history)
