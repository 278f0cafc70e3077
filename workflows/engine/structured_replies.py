"""The structures that a model can be asked to reply in, each with the activity that reads it."""

from dataclasses import dataclass
from typing import Protocol

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


class StructuredReplies(Protocol):
    """A structure to reply in; `least` is the shortest output that such a reply fits in."""

    @property
    def least(self) -> int:
        """The smallest reply, in tokens."""
        ...

    def start(
        self, call: ModelCallRequest, config: ActivityConfig
    ) -> ActivityHandle[StructuredReport]:
        """Schedule the call with its reader."""
        ...


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's verdict: what to score, and which findings are open."""

    dimensions: tuple[str, ...]
    open_findings: tuple[str, ...] = ()
    next_finding: int = 1
    pass_score: float = 1.0
    cache: CacheScope = "run"

    @property
    def least(self) -> int:
        """The shortest output that such a reply fits in."""
        return least_output("judgement", items=len(self.dimensions))

    def start(
        self, call: ModelCallRequest, config: ActivityConfig
    ) -> ActivityHandle[StructuredReport]:
        """Schedule the call with its reader."""
        request = JudgeRequest(
            call=call,
            dimensions=self.dimensions,
            open_findings=self.open_findings,
            next_finding=self.next_finding,
            pass_score=self.pass_score,
            cache=self.cache,
        )
        return workflow.start_activity_method(Judge.judge, request, **config)


@dataclass(frozen=True, slots=True)
class Planning:
    """A planner's steps."""

    least: int = least_output("plan")

    def start(
        self, call: ModelCallRequest, config: ActivityConfig
    ) -> ActivityHandle[StructuredReport]:
        """Schedule the call with its reader."""
        return workflow.start_activity_method(Plan.plan, PlanRequest(call=call), **config)


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a learner draws from a run that has ended."""

    least: int = least_output("learnings")

    def start(
        self, call: ModelCallRequest, config: ActivityConfig
    ) -> ActivityHandle[StructuredReport]:
        """Schedule the call with its reader."""
        return workflow.start_activity_method(Extract.extract, ExtractRequest(call=call), **config)


@dataclass(frozen=True, slots=True)
class Repairing:
    """The repair of a generated tool; `draft` is the address of its source."""

    draft: str
    least: int = least_output("repair")

    def start(
        self, call: ModelCallRequest, config: ActivityConfig
    ) -> ActivityHandle[StructuredReport]:
        """Schedule the call with its reader."""
        request = RepairToolRequest(call=call, draft=self.draft)
        return workflow.start_activity_method(RepairTool.repair_tool, request, **config)


@dataclass(frozen=True, slots=True)
class VerdictAsking:
    """A reviewer's verdict, asked for again in structured form."""

    least: int = least_output("verdict")

    def start(
        self, call: ModelCallRequest, config: ActivityConfig
    ) -> ActivityHandle[StructuredReport]:
        """Schedule the call with its reader."""
        return workflow.start_activity_method(
            AskVerdict.ask_verdict, VerdictRequest(call=call), **config
        )


@dataclass(frozen=True, slots=True)
class GoalJudging:
    """Whether the goal of a loop of roles is achieved."""

    least: int = least_output("goal")

    def start(
        self, call: ModelCallRequest, config: ActivityConfig
    ) -> ActivityHandle[StructuredReport]:
        """Schedule the call with its reader."""
        return workflow.start_activity_method(
            AskVerdict.judge_goal, GoalRequest(call=call), **config
        )


@dataclass(frozen=True, slots=True)
class Managing:
    """A manager's decision; the rolling summary is that part of the prompt, from and to."""

    summary: tuple[int, int]
    least: int = least_output("decision")

    def start(
        self, call: ModelCallRequest, config: ActivityConfig
    ) -> ActivityHandle[StructuredReport]:
        """Schedule the call with its reader."""
        return workflow.start_activity_method(
            Manage.manage, ManageRequest(call=call, summary=self.summary), **config
        )


@dataclass(frozen=True, slots=True)
class WorkReviewing:
    """A critic's review of one result, or of each of some criteria."""

    criteria: tuple[str, ...] = ()

    @property
    def least(self) -> int:
        """The shortest output that such a reply fits in."""
        return least_output("review", items=len(self.criteria))

    def start(
        self, call: ModelCallRequest, config: ActivityConfig
    ) -> ActivityHandle[StructuredReport]:
        """Schedule the call with its reader."""
        request = ReviewRequest(call=call, criteria=self.criteria)
        return workflow.start_activity_method(ReviewWork.review_work, request, **config)
