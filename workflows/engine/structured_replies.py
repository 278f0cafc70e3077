"""The structures that a model can be asked to reply in, each with the activity that reads it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from temporalio import workflow
from temporalio.workflow import ActivityConfig, ActivityHandle

from perdure.activities.evaluation import Judge
from perdure.activities.generated_tools import RepairTool
from perdure.activities.manager import Manage
from perdure.activities.memory import Extract
from perdure.activities.plan import Plan
from perdure.activities.roles import AskVerdict
from perdure.activities.worker_results import ReviewWork
from perdure.domain.budget.allowances import least_output
from perdure.domain.delegation.messages import ManageRequest, ReviewRequest
from perdure.domain.evaluation.judge_cache import CacheScope
from perdure.domain.generated_tools.messages import RepairToolRequest
from perdure.domain.memory.learn_messages import ExtractRequest
from perdure.domain.refine.planning import PlanRequest
from perdure.domain.roles.messages import GoalRequest, VerdictRequest
from perdure.domain.run.activity_messages import JudgeRequest, ModelCallRequest, StructuredReport

Activities = TypeVar("Activities")
Request = TypeVar("Request")
Report = TypeVar("Report", bound=StructuredReport)


@dataclass(frozen=True, slots=True)
class StructuredReplies:
    """A structure to reply in.

    Args:
        least: the shortest output that such a reply fits in, in tokens.
        start: schedules the call with the activity that reads the reply.
    """

    least: int
    start: Callable[[ModelCallRequest, ActivityConfig], ActivityHandle[StructuredReport]]


def judgement(
    dimensions: tuple[str, ...],
    *,
    open_findings: tuple[str, ...] = (),
    next_finding: int = 1,
    pass_score: float = 1.0,
    cache: CacheScope = "run",
) -> StructuredReplies:
    """A judge's verdict: what to score, and which findings are open."""

    def request(call: ModelCallRequest) -> JudgeRequest:
        return JudgeRequest(
            call=call,
            dimensions=dimensions,
            open_findings=open_findings,
            next_finding=next_finding,
            pass_score=pass_score,
            cache=cache,
        )

    return _read_by(Judge.judge, request, least_output("judgement", items=len(dimensions)))


def plan_steps() -> StructuredReplies:
    """A planner's steps."""
    return _read_by(Plan.plan, lambda call: PlanRequest(call=call), least_output("plan"))


def learnings() -> StructuredReplies:
    """What a learner draws from a run that has ended."""
    return _read_by(
        Extract.extract, lambda call: ExtractRequest(call=call), least_output("learnings")
    )


def tool_repair(draft: str) -> StructuredReplies:
    """The repair of a generated tool; `draft` is the address of its source."""
    return _read_by(
        RepairTool.repair_tool,
        lambda call: RepairToolRequest(call=call, draft=draft),
        least_output("repair"),
    )


def review_verdict() -> StructuredReplies:
    """A reviewer's verdict, asked for again in structured form."""
    return _read_by(
        AskVerdict.ask_verdict, lambda call: VerdictRequest(call=call), least_output("verdict")
    )


def goal_verdict() -> StructuredReplies:
    """Whether the goal of a loop of roles is achieved."""
    return _read_by(
        AskVerdict.judge_goal, lambda call: GoalRequest(call=call), least_output("goal")
    )


def manager_decision(summary: tuple[int, int]) -> StructuredReplies:
    """A manager's decision; the rolling summary is that part of the prompt, from and to."""
    return _read_by(
        Manage.manage,
        lambda call: ManageRequest(call=call, summary=summary),
        least_output("decision"),
    )


def work_review(criteria: tuple[str, ...] = ()) -> StructuredReplies:
    """A critic's review of one result, or of each of some criteria."""
    return _read_by(
        ReviewWork.review_work,
        lambda call: ReviewRequest(call=call, criteria=criteria),
        least_output("review", items=len(criteria)),
    )


def _read_by(
    activity: Callable[[Activities, Request], Awaitable[Report]],
    request: Callable[[ModelCallRequest], Request],
    least: int,
) -> StructuredReplies:
    # A closure may stand in a workflow: of all this, only the request gets into the history.
    def start(call: ModelCallRequest, config: ActivityConfig) -> ActivityHandle[StructuredReport]:
        return workflow.start_activity_method(activity, request(call), **config)

    return StructuredReplies(least, start)
