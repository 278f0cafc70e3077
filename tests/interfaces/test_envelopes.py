"""What the loops of a run may use of its budget, from the books of a journal that is played."""

from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import cast

import pytest

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.journal import AttemptRow, Journal
from perdure.domain.llm.usage import Usage
from perdure.interfaces.envelopes import share_of
from perdure.interfaces.loop_service import _below

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPENT = AttemptRow(
    key="e/s1",
    attempt=1,
    root="above",
    run="above",
    phase="working",
    role="executor",
    iteration=1,
    model="m",
    state="answered",
    usage=Usage(output_tokens=10_000, cache_read_tokens=40_000),
    cost_usd=Decimal(0),
    started_at=NOW,
    seconds=1.0,
)


@pytest.mark.parametrize(("reads", "tokens"), [(False, 40_000), (True, 25_000)])
async def test_a_loop_gets_its_share_of_what_is_left_as_the_budget_counts(
    reads: bool, tokens: int
) -> None:
    limits = {"tokens": 100_000, "wrap_up": 0, "count_cache_reads": reads, "depth": 1}
    above = AgentSpec.model_validate({"kind": "agent", "goal": "g", "budget": limits})

    async def tree(**_: object) -> list[AttemptRow]:
        return [SPENT]

    journal = cast("Journal", SimpleNamespace(tree=tree))
    share = await share_of(journal, caller="above", above=above, held={})
    assert share.tokens == tokens
    loop = _below(AgentSpec(kind="agent", goal="g"), "above", above, share=share)
    assert (loop.budget.tokens, loop.budget.count_cache_reads) == (tokens, reads)
