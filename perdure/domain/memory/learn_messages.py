"""A learning run: its specification, its state, and the requests to its steps."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.evaluation.outcomes import explain
from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.memory.learner_reply import Extracted
from perdure.domain.memory.rule_lessons import EndedRun
from perdure.domain.run.activity_messages import ModelCallRequest, StructuredReport
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import CommonSpec, LoopInput
from perdure.domain.run.state import LoopState
from perdure.domain.run.status_views import spend_report
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import Ending

TOKENS = 20_000
COST_USD = Decimal("0.20")
SHARE = Decimal("0.1")
MODEL_CALLS = 4
ACTIVE_TIME_S = 120.0


class LearnSpec(CommonSpec):
    """Learn from a run that just ended."""

    kind: Literal["learn"]
    source: EndedRun


class LearnState(LoopState):
    """State of a `LearnLoop`: what it put into memory, and what there is still to ask."""

    reviewed: bool = False
    question: BlobRef | None = None
    kept: int = 0
    reinforced: int = 0
    heard: int = 0
    note: str = ""


class LearnInput(LoopInput):
    """Input of `LearnLoop`."""

    spec: LearnSpec
    state: LearnState | None = None


class ReviewRequest(ActivityMessage):
    """Apply the rules to an ended run, and prepare the question to a model where it may help."""

    run: str
    source: EndedRun
    chain: tuple[str, ...] = ()


class ReviewReport(ActivityMessage):
    """What the rules put into memory, and the question that is left for a model.

    `frame`, `cards` and `queues` are there with a `question`; `note` says why there is none;
    `heard` counts the entries that heard how the run ended which they were used in.
    """

    kept: int = 0
    reinforced: int = 0
    heard: int = 0
    frame: str | None = None
    cards: dict[str, ModelProfile] = {}
    queues: dict[str, str] = {}
    system_tokens: int = 0
    question: BlobRef | None = None
    note: str = ""


class ExtractRequest(ActivityMessage):
    """Ask a model what a run teaches."""

    call: ModelCallRequest


class ExtractReport(StructuredReport):
    """The lessons as read, or the problems that make the reply none."""

    learnings: tuple[Extracted, ...] = ()


class KeepRequest(ActivityMessage):
    """Put a model's lessons into memory."""

    source: EndedRun
    learnings: tuple[Extracted, ...]


class KeepReport(ActivityMessage):
    """How many were new, and how many strengthened what was known."""

    kept: int = 0
    reinforced: int = 0


def learning_budget(limits: BudgetLimits) -> BudgetLimits:
    """A tenth of the run's tokens and money, and never more than a small fixed envelope.

    A run without a cost limit may call models of unknown price, and so may what learns from it.
    """
    cost, policy = COST_USD, limits.unknown_price
    if limits.cost_usd:
        cost = min(COST_USD, limits.cost_usd * SHARE)
    elif policy == "block":
        policy = "unverified"
    return BudgetLimits(
        # Never zero, which would mean unlimited.
        tokens=max(1, min(TOKENS, int(limits.tokens * SHARE))) if limits.tokens else TOKENS,
        cost_usd=cost,
        active_time=ACTIVE_TIME_S,
        model_calls=MODEL_CALLS,
        unknown_price=policy,
        # It writes no closing text, so a reserve would only be lost.
        wrap_up=0.0,
    )


def learn_spec(
    spec: CommonSpec,
    result: RunResult,
    *,
    frame: str,
    unwritten: Sequence[IterationRecord],
    started_at: datetime,
    now: datetime,
) -> LearnSpec:
    """What the learning run of an ended run is told."""
    source = EndedRun(
        id=result.id,
        kind=result.kind,
        goal=spec.goal,
        category=spec.category,
        outcome=result.outcome,
        reason=result.reason,
        best_score=result.best.score if result.best else None,
        best_iteration=result.best.iteration if result.best else None,
        frame=frame,
        unwritten=tuple(unwritten),
        started_at=started_at,
        ended_at=now,
    )
    return LearnSpec(
        kind="learn",
        goal=f"Learn from {result.id}: {spec.goal}",
        category=spec.category,
        models=spec.models,
        budget=learning_budget(spec.budget),
        recall=False,
        # A learning run that learned in turn would start another one, and so on.
        learn=False,
        metadata=spec.metadata,
        priority=spec.priority,
        upgrade=spec.upgrade,
        source=source,
    )


def learn_result(state: LearnState, *, run: str, ending: Ending, wall_time: float) -> RunResult:
    return RunResult(
        id=run,
        kind="learn",
        outcome=ending.outcome,
        reason=ending.reason,
        explanation=explain(ending.outcome, ending.reason, ending.detail),
        output=in_words(state),
        spend=spend_report(state, wall_time=wall_time),
        models_used=tuple(state.models_used),
        started_at=state.started_at,
    )


def in_words(state: LearnState) -> str:
    """What a learning run did, in one sentence."""
    kept = f"{state.kept} learning{'' if state.kept == 1 else 's'} kept"
    more = f", {state.reinforced} reinforced" if state.reinforced else ""
    return f"{kept}{more}{f'; {state.note}' if state.note else ''}"
