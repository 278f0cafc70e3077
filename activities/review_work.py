"""The activity `review_work`: a reviewer's opinion of one result, or of the success criteria."""

from functools import partial

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.delegation.criteria_reply import read_criteria
from perdure.domain.delegation.messages import ReviewReport, ReviewRequest
from perdure.domain.delegation.prompts import CRITERIA_SYSTEM, CRITIC_SYSTEM
from perdure.domain.delegation.schemas import criteria_schema, critique_schema
from perdure.domain.delegation.worker_review import read_critique


class ReviewWork:
    """Reviews in a context of its own; a reply that is no review is no score either."""

    def __init__(self, structured: StructuredCalls) -> None:
        self._structured = structured

    @activity.defn
    @translated
    async def review_work(self, step: ReviewRequest) -> ReviewReport:
        """Make the call with structured output, and validate the reply."""
        return await (self._criteria(step) if step.criteria else self._critique(step))

    async def _critique(self, step: ReviewRequest) -> ReviewReport:
        answered = await self._structured.ask(
            step.call, schema=critique_schema(), read=read_critique, system=CRITIC_SYSTEM
        )
        return ReviewReport(call=answered.call, critique=answered.value, problems=answered.problems)

    async def _criteria(self, step: ReviewRequest) -> ReviewReport:
        answered = await self._structured.ask(
            step.call,
            schema=criteria_schema(),
            read=partial(read_criteria, criteria=step.criteria),
            system=CRITERIA_SYSTEM,
        )
        return ReviewReport(call=answered.call, unmet=answered.value, problems=answered.problems)
