"""The decision of the role loop after the last stage of an iteration.

`decide` is a pure function; the verdict and the goal judge have been asked by then.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from perdure.domain.budget.accounting import MAX_ITERATIONS
from perdure.domain.evaluation.check_termination import TerminationFacts, check_termination
from perdure.domain.evaluation.outcomes import Outcome, RunEnd, run_end
from perdure.domain.evaluation.termination_conditions import Condition
from perdure.domain.evaluation.trajectory import Trajectory
from perdure.domain.turns.records import Decision

UNHEARD = "Something was added that no stage has read yet, and rounds are left."

Row = Literal[
    "stage_failed",
    "budget",
    "deadline",
    "success",
    "rework",
    "condition",
    "round_limit",
    "next",
    "cut",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFacts:
    """Everything that the decision depends on.

    Args:
        condition: the definition's, with the run's own limit put in.
        failure: why a stage failed, None when none did.
        exhausted: the budget dimension that is spent, with the figures.
        out_of_time: the clock that ran out, with the figures.
        approved: the verdict, None when none was asked for or it was unclear.
        achieved: what the goal judge said; None when nobody was asked.
        rejections: rejections in a row for the same findings, this one included.
        rework_limit: as many of them ask a person.
        completed: complete iterations, this one included; those that a person granted on top do
            not count.
        limit: the run's own limit on them, whatever the condition says.
        active_seconds: of the run so far.
        wall_seconds: of the run so far.
        now: the time of the run.
        tool_outputs: the number that each tool's last output began with, as text.
        repeated: what the iteration made was made before in this run.
        unheard: people added something that no stage has read yet.
    """

    condition: Condition
    failure: str | None = None
    exhausted: tuple[str, str] | None = None
    out_of_time: tuple[str, str] | None = None
    approved: bool | None = None
    achieved: bool | None = None
    rejections: int = 0
    rework_limit: int = 3
    completed: int = 1
    limit: int = MAX_ITERATIONS
    active_seconds: float = 0.0
    wall_seconds: float = 0.0
    now: datetime | None = None
    tool_outputs: dict[str, str] = field(default_factory=dict)
    repeated: bool = False
    unheard: bool = False


@dataclass(frozen=True, slots=True)
class RoleDecision:
    """What to do next: an outcome ends the run, the row `rework` asks a person."""

    row: Row
    decision: Decision
    explanation: str
    outcome: Outcome | None = None
    reason: str | None = None

    @property
    def ends(self) -> bool:
        return self.outcome is not None


def decide(facts: RoleFacts) -> RoleDecision:
    """Apply the first row that matches."""
    if facts.failure is not None:
        return _over(
            "stage_failed", "abort_error", run_end("failed", "stage_failed", facts.failure)
        )
    if facts.exhausted is not None:
        return _over("budget", "abort_budget", run_end("out_of_budget", *facts.exhausted))
    if facts.out_of_time is not None:
        return _over("deadline", "abort_timeout", run_end("deadline", *facts.out_of_time))
    # A verdict of success counts on the last permitted round too: limits are looked at later.
    early = check_termination(facts.condition, _termination_facts(facts, completed=0))
    success = early if early is not None and early.outcome == "accepted" else None
    if success is not None and facts.unheard and _rounds_left(facts):
        return RoleDecision("next", "continue", UNHEARD)
    if success is not None:
        return _over("success", "accept", success)
    # Before the limits: after the last round too a person may grant another one.
    if 0 < facts.rework_limit <= facts.rejections:
        why = f"The same findings came back {facts.rejections} times in a row."
        return RoleDecision("rework", "escalate", why)
    return _by_limits(facts)


def _rounds_left(facts: RoleFacts) -> bool:
    """Whether another iteration would be permitted if this one were no success."""
    # Without the success, which would itself count as an end.
    unsuccessful = replace(facts, approved=None, achieved=None, tool_outputs={})
    return not _by_limits(unsuccessful).ends


def _by_limits(facts: RoleFacts) -> RoleDecision:
    verdict = check_termination(
        facts.condition, _termination_facts(facts, completed=facts.completed)
    )
    if verdict is not None:
        decision: Decision = "accept" if verdict.outcome == "accepted" else "accept_best"
        return _over("condition", decision, verdict)
    if facts.completed >= facts.limit:
        figures = f"{facts.completed} of {facts.limit}"
        limit = run_end("best_effort", "max_iterations", figures)
        return _over("round_limit", "accept_best", limit)
    return RoleDecision("next", "continue", _why_on(facts))


def _termination_facts(facts: RoleFacts, *, completed: int) -> TerminationFacts:
    early = completed == 0
    return TerminationFacts(
        trajectory=Trajectory(completed=completed),
        active_seconds=0.0 if early else facts.active_seconds,
        wall_seconds=0.0 if early else facts.wall_seconds,
        now=None if early else facts.now,
        repeated=facts.repeated and not early,
        approved=facts.approved,
        review_rounds=completed,
        goal_achieved=facts.achieved,
        tool_outputs=facts.tool_outputs,
    )


def _over(row: Row, decision: Decision, verdict: RunEnd) -> RoleDecision:
    return RoleDecision(row, decision, verdict.explanation, verdict.outcome, verdict.reason)


def _why_on(facts: RoleFacts) -> str:
    if facts.approved is False:
        return "The review asks for changes, and rounds are left."
    if facts.achieved is False:
        return "The goal is not achieved yet, and rounds are left."
    return "The condition of the loop is not met yet."
