"""The activity `plan`: ask a model for a plan, and read it."""

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.refine.planning import (
    PLANNER_SYSTEM,
    PlanReport,
    PlanRequest,
    plan_schema,
    read_plan,
)
from perdure.domain.refine.planning import Plan as Steps

NO_PLAN = Steps()


class Plan:
    """Asks for a plan in a context of its own. The plan is data for the executor's prompt."""

    def __init__(self, structured: StructuredCalls) -> None:
        self._structured = structured

    @activity.defn
    @translated
    async def plan(self, step: PlanRequest) -> PlanReport:
        """Ask for a plan and validate it."""
        answered = await self._structured.ask(
            step.call, schema=plan_schema(), read=read_plan, system=PLANNER_SYSTEM
        )
        return PlanReport(
            call=answered.call, plan=answered.value or NO_PLAN, problems=answered.problems
        )
