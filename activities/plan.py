"""The activity `plan`: ask a model for a plan, and read it."""

from temporalio import activity

from activities.call_model import CallModel
from activities.translate import translated
from perdure.domain.evaluation_reply import BadReply
from perdure.domain.ports import BlobStore
from perdure.domain.refine.planning import (
    PLANNER_SYSTEM,
    PlanReport,
    PlanRequest,
    plan_schema,
    read_plan,
)


class Plan:
    """Plans in a context of its own; the plan is data for the executor, not an order to the run."""

    def __init__(self, *, calls: CallModel, blobs: BlobStore) -> None:
        self._calls = calls
        self._blobs = blobs

    @activity.defn
    @translated
    async def plan(self, step: PlanRequest) -> PlanReport:
        """Make the call with structured output, and validate what comes back."""
        call = await self._calls.turn(step.call, json_schema=plan_schema(), system=PLANNER_SYSTEM)
        if call.status != "replied":
            return PlanReport(call=call)
        text = "" if call.text is None else await self._blobs.get_text(call.text.hash)
        read = read_plan(text)
        if isinstance(read, BadReply):
            return PlanReport(call=call, problems=read.problems)
        return PlanReport(call=call, plan=read)
