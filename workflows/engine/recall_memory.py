"""The recall step of every loop: what earlier runs learned, before this run's first step."""

from temporalio import workflow

from perdure.activities.memory import Recall
from perdure.domain.budget import accounting as budgets
from perdure.domain.memory.prompt_blocks import recall_allowance
from perdure.domain.memory.recall import RecallReport, RecallRequest
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.step_runner import Completed


async def recall_memory(engine: Engine) -> RecallReport | None:
    """Look up what earlier runs learned.

    Args:
        engine: that of the run; its goal, category and named skills are looked up.

    Returns:
        What was found; None if the step failed. Memory is optional, so the run goes on without it.
    """
    run = engine.run
    run.set_phase("recalling")
    activity_id = run.next_activity_id()
    request = RecallRequest(
        run=run.id,
        goal=run.spec.goal,
        category=run.spec.category,
        token_limit=recall_allowance(run.spec.budget.tokens or None),
        skills=run.spec.skills,
        # Memories fade with age. The time travels in the request, so a retried step finds the same
        # ones.
        now=workflow.now(),
    )
    handle = workflow.start_activity_method(
        Recall.recall,
        request,
        **activity_options.store_step(run.site, activity_id=activity_id, summary="recall"),
    )
    outcome = await engine.steps.await_step(handle, activity_id=activity_id)
    if not isinstance(outcome, Completed):
        run.record_event("recalled", failed=f"{outcome.code}: {outcome.message}"[:300])
        return None
    report = outcome.report
    run.apply_budget(budgets.add_active_time(run.state.budget, report.seconds))
    run.record_event(
        "recalled",
        text=report.summary,
        missing=list(report.missing) or None,
        left_out=list(report.left_out) or None,
    )
    return report
