"""The activities `ask_verdict` and `judge_goal`: questions whose answer decides on an iteration."""

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.roles.goal_reply import GoalVerdict, goal_schema, read_goal
from perdure.domain.roles.messages import GoalReport, GoalRequest, VerdictReport, VerdictRequest
from perdure.domain.roles.prompts import GOAL_SYSTEM
from perdure.domain.roles.review_record import review_of
from perdure.domain.roles.verdict import read_verdict, verdict_schema

NOTHING = GoalVerdict(achieved=False, clear=False)


class AskVerdict:
    """Asks in a structured form; what cannot be read approves nothing and achieves nothing."""

    def __init__(self, structured: StructuredCalls) -> None:
        self._structured = structured

    @activity.defn
    @translated
    async def ask_verdict(self, step: VerdictRequest) -> VerdictReport:
        """Ask a gate stage's model once more, in its own conversation."""
        answered = await self._structured.ask(step.call, schema=verdict_schema(), read=read_verdict)
        if answered.value is None:
            return VerdictReport(call=answered.call)
        return VerdictReport(call=answered.call, review=review_of(answered.value, answered.text))

    @activity.defn
    @translated
    async def judge_goal(self, step: GoalRequest) -> GoalReport:
        """Ask the goal judge, who sees no conversation of a stage."""
        answered = await self._structured.ask(
            step.call, schema=goal_schema(), read=read_goal, system=GOAL_SYSTEM
        )
        found = answered.value or NOTHING
        return GoalReport(
            call=answered.call,
            achieved=found.achieved,
            rationale=found.rationale,
            problems=found.problems,
            usable=bool(found.problems),
        )
