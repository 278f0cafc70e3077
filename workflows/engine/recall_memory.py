"""The recall step of every loop: what earlier runs left, before the first step of this one."""

from temporalio import workflow

from perdure.activities.memory import Recall
from perdure.domain.budget import envelope as budgets
from perdure.domain.memory.prompt_blocks import recall_allowance
from perdure.domain.memory.recall_messages import RecallReport, RecallRequest
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.base import Loop
from perdure.workflows.engine.step_runner import Completed


async def recall_memory(loop: Loop) -> RecallReport | None:
    """Look up what earlier runs left; memory is a help, so that the run goes on without.

    Args:
        loop: the run, whose goal, category and named skills are asked about.

    Returns:
        What was found, after it was charged and told as an event; None where the step failed.
    """
    loop.set_phase("recalling")
    activity_id = loop.next_activity_id()
    request = RecallRequest(
        run=loop.run_id,
        goal=loop.spec.goal,
        category=loop.spec.category,
        token_limit=recall_allowance(loop.spec.budget.tokens or None),
        skills=loop.spec.skills,
        now=workflow.now(),
    )
    handle = workflow.start_activity_method(
        Recall.recall,
        request,
        **activity_options.store_step(loop.site, activity_id=activity_id, summary="recall"),
    )
    outcome = await loop.await_step(handle, activity_id=activity_id)
    if not isinstance(outcome, Completed):
        loop.record_event("recalled", failed=f"{outcome.code}: {outcome.message}"[:300])
        return None
    report = outcome.report
    loop.apply_budget(budgets.work(loop.core.budget, report.seconds))
    loop.record_event(
        "recalled",
        text=report.summary,
        missing=list(report.missing) or None,
        left_out=list(report.left_out) or None,
    )
    return report
