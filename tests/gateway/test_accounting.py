"""What the store knows of a run that cannot tell itself, and of a fork none of the first run."""

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import BudgetStatus, RunStatus
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.accounting import result_with_books, with_books

TAKEN_OVER = [IterationRecord(index=n, tool_calls=5, origin="first") for n in (1, 2)]
OWN = IterationRecord(index=3, tool_calls=1)


def test_a_fork_did_none_of_the_iterations_that_it_took_over() -> None:
    ended = RunResult(id="fork", kind="agent", outcome="failed", reason="r", explanation="")
    spend = result_with_books(ended, [], [*TAKEN_OVER, OWN]).spend
    assert (spend.tool_calls, spend.iterations) == (1, 1)
    status = RunStatus(
        id="fork",
        kind="agent",
        goal="g",
        lifecycle="running",
        phase="executing",
        budget=BudgetStatus(limits=BudgetLimits()),
    )
    known = with_books(status, [], [*TAKEN_OVER, OWN])
    assert known.budget.tool_calls == 1
    assert (known.iteration, len(known.trajectory)) == (3, 3), "it goes on from them all the same"
