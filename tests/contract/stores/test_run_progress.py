"""What lists of runs read of the journal: how far each run has come, and what its tree spent."""

from decimal import Decimal

from attempts import answer, attempt

from perdure.adapters.stores.journal import SqlJournal
from perdure.domain.budget.journal import CallProgress


async def test_the_newest_call_of_each_execution_says_how_far_a_run_has_come(
    journal: SqlJournal,
) -> None:
    for number in (1, 2):
        first = attempt(key=f"e1/{number}", execution="e1", iteration=number, phase="planning")
        await journal.begin(first)
        await answer(journal, first)
    await journal.begin(attempt(key="e2/1", execution="e2", iteration=3, phase="executing"))
    await journal.begin(attempt(key="e3/1", execution="e3", run="other"))
    found = await journal.progress(["run"])
    assert sorted(found, key=lambda one: one.execution) == [
        CallProgress(run="run", execution="e1", iteration=2, phase="planning"),
        CallProgress(run="run", execution="e2", iteration=3, phase="executing"),
    ]


async def test_a_tree_spent_what_its_ended_calls_cost(journal: SqlJournal) -> None:
    for key, run in (("e1/1", "run"), ("e2/1", "run.w1-a")):
        call = attempt(key=key, run=run, root="run")
        await journal.begin(call)
        await journal.answer(
            call, usage=call.estimate, cost_usd=Decimal("0.25"), reply="r", seconds=1.0
        )
    await journal.begin(attempt(key="e1/2", root="run"))
    unpriced = attempt(key="e3/1", run="free", root="free")
    await journal.begin(unpriced)
    await journal.answer(unpriced, usage=unpriced.estimate, cost_usd=None, reply="r", seconds=1.0)
    assert await journal.spent(["run", "free", "unheard-of"]) == {"run": 0.5, "free": None}
