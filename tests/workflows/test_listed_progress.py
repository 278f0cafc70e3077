"""A list shows how far an agent has come, although it seldom tells the server."""

from agent_runs import echo, script, task
from holding import HELD, Holding
from installation import Installation
from listed import listed
from waiting import eventually

from perdure.gateway.types import RunRow

PRICE = {"input_per_million": 1_000.0, "output_per_million": 1_000.0}


async def test_a_list_shows_iteration_phase_and_cost_of_an_agent(
    probe: Installation, holding: Holding
) -> None:
    replies = (echo("one"), echo("two"), {"text": "Done.", "delay_s": HELD})
    run = await probe.start(task(budget={"cost_usd": 50}), script(*replies, price=PRICE))
    await holding.begun()
    rows: list[RunRow] = []

    async def shown() -> bool:
        rows[:] = [row for id, row in (await listed(probe.gateway)).items() if id == run]
        return bool(rows)

    await eventually(shown)
    status = await probe.status(run)
    (row,) = rows
    assert (row.iteration, row.phase) == (3, "executing") == (status.iteration, status.phase)
    assert row.cost_usd == float(status.budget.cost_usd or 0) > 0
    holding.release()
    await probe.gateway.result(run)
