"""A learning run: its specification, its state, and the requests to its steps."""

from decimal import Decimal
from typing import Literal

from perdure.domain.base import StepMessage
from perdure.domain.budget import BudgetLimits
from perdure.domain.memory.course import EndedRun
from perdure.domain.memory.extraction import Extracted
from perdure.domain.models import ModelCard
from perdure.domain.refs import Ref
from perdure.domain.run import CommonSpec, LoopInput
from perdure.domain.state import CoreState
from perdure.domain.steps import ModelCallRequest, StructuredReport

TOKENS = 20_000
COST_USD = Decimal("0.20")
SHARE = Decimal("0.1")
MODEL_CALLS = 4
ACTIVE_TIME_S = 120.0


class LearnSpec(CommonSpec):
    """Learn from a run that just ended."""

    kind: Literal["learn"]
    source: EndedRun


class LearnState(CoreState):
    """State of a `LearnLoop`: what it put into memory, and what there is still to ask."""

    reviewed: bool = False
    question: Ref | None = None
    kept: int = 0
    reinforced: int = 0
    told: int = 0
    note: str = ""


class LearnInput(LoopInput):
    """Input of `LearnLoop`."""

    spec: LearnSpec
    state: LearnState | None = None


class ReviewRequest(StepMessage):
    """Apply the rules to an ended run, and prepare the question to a model where it may help."""

    run: str
    source: EndedRun
    chain: tuple[str, ...] = ()


class ReviewReport(StepMessage):
    """What the rules put into memory, and the question that is left for a model.

    `frame` and `cards` are there with a `question`; `note` says why there is none; `told` counts
    the entries that heard how the run ended which they were used in.
    """

    kept: int = 0
    reinforced: int = 0
    told: int = 0
    frame: str | None = None
    cards: dict[str, ModelCard] = {}
    system_tokens: int = 0
    question: Ref | None = None
    note: str = ""


class ExtractRequest(StepMessage):
    """Ask a model what a run teaches."""

    call: ModelCallRequest


class ExtractReport(StructuredReport):
    """The lessons as read, or the problems that make the reply none."""

    learnings: tuple[Extracted, ...] = ()


class KeepRequest(StepMessage):
    """Put a model's lessons into memory."""

    source: EndedRun
    learnings: tuple[Extracted, ...]


class KeepReport(StepMessage):
    """How many were new, and how many strengthened what was known."""

    kept: int = 0
    reinforced: int = 0


def learning_budget(limits: BudgetLimits) -> BudgetLimits:
    """A tenth of the run's own limits, and never more than a small fixed envelope.

    A run without a cost limit learns without one: a limit would forbid models of unknown price.
    """
    cost = None if not limits.cost_usd else min(COST_USD, limits.cost_usd * SHARE)
    return BudgetLimits(
        tokens=min(TOKENS, int(limits.tokens * SHARE)) if limits.tokens else TOKENS,
        cost_usd=cost,
        active_time=ACTIVE_TIME_S,
        model_calls=MODEL_CALLS,
        unknown_price=limits.unknown_price,
        wrap_up=0.0,
    )


def in_words(state: LearnState) -> str:
    """What a learning run did, in one sentence."""
    kept = f"{state.kept} learning{'' if state.kept == 1 else 's'} kept"
    more = f", {state.reinforced} reinforced" if state.reinforced else ""
    return f"{kept}{more}{f'; {state.note}' if state.note else ''}"
