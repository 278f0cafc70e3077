"""What is changed of the limits below a delegation: a share may become smaller, never larger."""

from decimal import Decimal

import pytest
from delegating import books_of_the_tree_agree, completes, delegates, delegation, script, works
from holding import HELD, Holding
from installation import Installation
from temporalio.client import Client
from waiting import eventually

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import Amend


async def limits_of(site: Installation, run: str) -> BudgetLimits:
    return (await site.status(run)).budget.limits


@pytest.fixture
async def tree(site: Installation, holding: Holding) -> tuple[str, str]:
    """A run of 4 USD that may ask for more, and a sub-manager below it whose worker is at work."""
    run = await site.start(
        delegation(budget={"cost_usd": 4, "on_exhausted": "ask"}),
        script(
            delegates("m1", sub_manager=True),
            delegates("w1", by="m1"),
            works("w1", delay_s=HELD),
            completes("part", by="m1"),
            completes(),
        ),
    )
    await holding.begun()
    (below,) = (await site.status(run)).children
    return run, below


async def test_no_client_gives_a_run_more_than_was_put_aside_for_it(
    site: Installation, holding: Holding, tree: tuple[str, str]
) -> None:
    root, below = tree
    given = await limits_of(site, below)
    (lowest,) = (await site.status(below)).children
    for run, above in ((below, root), (lowest, below)):
        share = (await limits_of(site, run)).cost_usd
        with pytest.raises(NotAllowed, match=rf"cost_usd: 1000 is more than .* {above} has put"):
            await site.gateway.verb(run, Amend(budget={"cost_usd": 1_000}, by="t"))
        plain = (await Client.connect(site.address)).get_workflow_handle(run)
        await plain.signal("amend", {"budget": {"tokens": None}})

        async def noted(run: str = run) -> bool:
            return any("tokens: no limit" in why for why in (await site.status(run)).refused)

        await eventually(noted)
        assert (await limits_of(site, run)).cost_usd == share
    await site.gateway.verb(below, Amend(budget={"cost_usd": "0.5"}, by="t"))
    assert (await limits_of(site, below)).cost_usd == Decimal("0.5")
    await site.gateway.verb(below, Amend(budget={"cost_usd": str(given.cost_usd)}, by="t"))
    assert await limits_of(site, below) == given
    assert given.on_exhausted == "abort"
    holding.release()
    result = await site.gateway.result(root)
    assert result.outcome == "accepted"
    await books_of_the_tree_agree(site, result)
