"""Decisions of a manager in a few words, and what comes back of them."""

from perdure.domain.delegation.apply_decision import decide
from perdure.domain.delegation.completion import Rejection
from perdure.domain.delegation.decisions import (
    Complete,
    Delegate,
    Diagnose,
    Envelope,
    Escalate,
    Fail,
    Hypothesis,
    MakePlan,
    ManagerDecision,
    Subtask,
)
from perdure.domain.delegation.next_step import BudgetPhase, Directive, End
from perdure.domain.delegation.progress import ManagerProgress, after_delegation
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.delegation.stall import StallVerdict

SETTINGS = DelegationSettings()


def work(*names: str, subtask: str | None = None, instructions: str = "") -> Delegate:
    return Delegate(
        decision="delegate",
        reason="it is time",
        delegations=tuple(
            Envelope(worker=name, subtask=subtask, instructions=instructions or f"do {name}")
            for name in names
        ),
    )


def plan(*ids: str, after: str | None = None) -> MakePlan:
    depends = (after,) if after else ()
    return MakePlan(
        decision="plan", subtasks=tuple(Subtask(id=id, title=id, depends_on=depends) for id in ids)
    )


GUESS = Diagnose(
    decision="diagnose", hypotheses=(Hypothesis(id="h1", statement="empty", test="look"),)
)


DONE = Complete(decision="complete", final_result="r")
ASK = Escalate(decision="escalate", question="Which year?", choices=("2024", "2025"))
GIVE_UP = Fail(decision="fail", why="no data")


def step(
    course: ManagerProgress,
    decision: ManagerDecision,
    *,
    settings: DelegationSettings = SETTINGS,
    phase: BudgetPhase = "core_work",
) -> tuple[ManagerProgress, Directive]:
    return decide(course.with_next_iteration(), decision, settings=settings, phase=phase)


def came_back(
    course: ManagerProgress,
    decision: Delegate,
    *,
    confidence: float | None = 0.7,
    usable: bool = True,
    critique: float | None = None,
    similarity: float | None = 0.2,
) -> tuple[ManagerProgress, StallVerdict]:
    reports = [
        WorkerReport(
            worker=item.worker,
            subtask=item.subtask,
            end="done" if usable else "crashed",
            confidence=confidence,
            key_finding=f"{item.worker} {course.iteration}" if usable else "",
            error="" if usable else "boom",
            usable=usable,
            critique=critique,
        )
        for item in decision.delegations
    ]
    return after_delegation(
        course,
        decision.delegations,
        reports,
        output="o" if usable else None,
        similarity=similarity,
        settings=SETTINGS,
    )


def worked(
    course: ManagerProgress,
    decision: Delegate,
    *,
    confidence: float | None = 0.7,
    usable: bool = True,
    critique: float | None = None,
) -> ManagerProgress:
    course, _ = step(course, decision)
    return came_back(course, decision, confidence=confidence, usable=usable, critique=critique)[0]


def end_of(directive: object) -> tuple[str, str]:
    assert isinstance(directive, End), directive
    return directive.verdict.outcome, directive.verdict.reason


REJECTION = Rejection(check="deliverables", named=("a.md is missing",))
UNNAMED = Rejection(check="success_criteria", named=("two sources",))
