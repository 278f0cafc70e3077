"""The delegation loop on a real server: each decision, what it leads to, and how it ends."""

from delegating import (
    books_of_the_tree_agree,
    completes,
    decides,
    delegates,
    delegation,
    script,
    works,
)
from installation import Installation


async def test_workers_work_and_the_manager_completes(site: Installation) -> None:
    result = await site.run(
        delegation(),
        script(delegates("w1", "w2"), works("w1"), works("w2", "with a cork"), completes()),
    )
    assert (result.outcome, result.reason) == ("accepted", "completed")
    assert result.output == "A bottle of steel."
    assert (result.quality_met, result.partial) == (True, False)
    assert [record.decision for record in result.iterations] == ["continue", "accept"]
    assert result.iterations[0].score == 0.7
    assert (result.spend.workers, result.spend.model_calls) == (2, 4)
    assert sorted(result.spend.by_child) == [f"{result.id}.w1-w1", f"{result.id}.w2-w2"]
    await books_of_the_tree_agree(site, result)


async def test_fail(site: Installation) -> None:
    result = await site.run(delegation(), script(decides("fail", why="no bottle")))
    assert (result.outcome, result.reason) == ("failed", "gave_up")
