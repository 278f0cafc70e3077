"""The record of an iteration: tool calls, stages, verdicts. Every interface shows this shape."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from pydantic import JsonValue

from perdure.domain.evaluation.scores import EvaluationMode
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.usage import Usage

Decision = Literal[
    "continue",
    "accept",
    "accept_best",
    "escalate",
    "abort_budget",
    "abort_timeout",
    "abort_regression",
    "abort_error",
    "abort_tool_loop",
    "stop",
]


class ToolCallRecord(FrozenModel):
    """One tool call of an iteration, without its text."""

    id: str
    name: str
    outcome: str
    ms: int = 0


class DimensionRecord(FrozenModel):
    """The score of one rubric dimension, where it came from, and what is missing.

    `cached_from` is the run that paid for the verdict, where the same question was answered before.
    `counted` is what a test program counted, in words.
    """

    score: float
    source: str
    carried: bool = False
    stale: bool = False
    gap: str = ""
    cached_from: str = ""
    counted: str = ""


StageStatus = Literal["completed", "failed", "cut", "blocked"]


VerdictKind = Literal["approved", "rejected", "unclear", "achieved", "not_achieved"]


class StageRecord(FrozenModel):
    """One stage of an iteration of roles; `line` is the first of what it said, `child` its run.

    `attempt` counts from 1; `cut`: a limit or a person ended it.
    """

    name: str
    role: str
    status: StageStatus
    attempt: int = 1
    line: str = ""
    output_ref: str | None = None
    transcript: str | None = None
    model: str | None = None
    request_id: str | None = None
    tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    model_calls: int = 0
    tool_calls: int = 0
    duration_s: float = 0.0
    error: str | None = None
    child: str | None = None


class VerdictRecord(FrozenModel):
    """What a gate stage or the goal judge said of an iteration; `asked_again`: in a second reply.

    `open_findings` counts those that stand in the way.
    """

    kind: VerdictKind
    by: str
    rationale: str = ""
    open_findings: int = 0
    asked_again: bool = False


class IterationRecord(FrozenModel):
    """What one iteration did, used and decided; `index` counts from 1.

    `stages` and `verdicts` are those of an iteration of roles. `unexplained` is what was wrong with
    the form of a judge's reply whose scores were taken all the same.

    `tools_offered` counts the tools of the last call, whose names stand at `tools_ref`: as a
    list, or in the frame of the run where all its tools were on offer.

    `adapted` are the values that the task's hook `adapt` computed for the next iteration.

    `saved` is the share of input tokens that a loop which resends everything would have sent more;
    `state_ref` the address of the state after it, from which a fork starts; `origin` the run that
    made it, where a fork took it over. `phase` is the phase of the run in which it ended: one that
    was cut short ended before the phase that decides.
    """

    index: int
    phase: str | None = None
    decision: Decision = "continue"
    score: float | None = None
    dimensions: dict[str, DimensionRecord] = {}
    findings: tuple[dict[str, JsonValue], ...] = ()
    evaluation: EvaluationMode = "none"
    unexplained: tuple[str, ...] = ()
    usage: Usage = Usage()
    cost_usd: Decimal | None = Decimal(0)
    model_calls: int = 0
    tool_calls: int = 0
    tools_offered: int = 0
    tools_ref: str | None = None
    calls: tuple[ToolCallRecord, ...] = ()
    has_tool_calls: bool = False
    duration_s: float = 0.0
    started_at: datetime | None = None
    model: str | None = None
    request_id: str | None = None
    stop_reason: str | None = None
    break_reason: str | None = None
    output_ref: str | None = None
    output_hash: str | None = None
    tree_ref: str | None = None
    adaptation: str | None = None
    adapted: dict[str, JsonValue] | None = None
    transcript: str | None = None
    state_ref: str | None = None
    gain: float | None = None
    saved: float | None = None
    error: str | None = None
    origin: str | None = None
    stages: tuple[StageRecord, ...] = ()
    verdicts: tuple[VerdictRecord, ...] = ()
