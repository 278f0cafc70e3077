"""What a run returns, and the record of each iteration; every door shows this shape."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from pydantic import JsonValue

from perdure.domain.base import Frozen
from perdure.domain.evaluation import EvaluationMode
from perdure.domain.outcomes import Outcome
from perdure.domain.strict_json import read_json
from perdure.domain.usage import Usage

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

BAD_OUTCOMES: frozenset[Outcome] = frozenset(
    {"failed", "tool_misuse", "no_output", "blocked", "unanswered"}
)


class ToolCallRecord(Frozen):
    """One tool call of an iteration, without its text."""

    id: str
    name: str
    outcome: str
    ms: int = 0


class DimensionRecord(Frozen):
    """The score of one rubric dimension, where it came from, and what is missing.

    `cached_from` is the run that paid for the verdict, where the same question was answered before.
    """

    score: float
    source: str
    carried: bool = False
    stale: bool = False
    gap: str = ""
    cached_from: str = ""


StageStatus = Literal["completed", "failed", "cut", "blocked"]
VerdictKind = Literal["approved", "rejected", "unclear", "achieved", "not_achieved"]


class StageRecord(Frozen):
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
    tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    model_calls: int = 0
    tool_calls: int = 0
    duration_s: float = 0.0
    error: str | None = None
    child: str | None = None


class VerdictRecord(Frozen):
    """What a gate stage or the goal judge said of an iteration; `asked_again`: in a second reply.

    `open_findings` counts those that stand in the way.
    """

    kind: VerdictKind
    by: str
    rationale: str = ""
    open_findings: int = 0
    asked_again: bool = False


class IterationRecord(Frozen):
    """What one iteration did, used and decided; `index` counts from 1.

    `stages` and `verdicts` are those of an iteration of roles. `unexplained` is what was wrong with
    the form of a judge's reply whose scores were taken all the same.

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
    transcript: str | None = None
    state_ref: str | None = None
    gain: float | None = None
    saved: float | None = None
    error: str | None = None
    origin: str | None = None
    stages: tuple[StageRecord, ...] = ()
    verdicts: tuple[VerdictRecord, ...] = ()


class Origin(Frozen):
    """Where a fork began: after an iteration of another run."""

    run: str
    iteration: int


class Mark(Frozen):
    """One iteration picked out: the best, or the last."""

    iteration: int
    score: float | None = None
    output_ref: str | None = None


class SpendReport(Frozen):
    """What a run spent, with the runs below it; costs are None when a price is unknown.

    Times in seconds. `unconfirmed_usage` is the part of the tokens that nobody confirmed.
    """

    tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal | None = Decimal(0)
    model_calls: int = 0
    tool_calls: int = 0
    iterations: int = 0
    workers: int = 0
    sub_managers: int = 0
    wall_time_s: float = 0.0
    active_time_s: float = 0.0
    usage: Usage = Usage()
    by_phase: dict[str, dict[str, JsonValue]] = {}
    by_model: dict[str, dict[str, JsonValue]] = {}
    by_child: dict[str, dict[str, JsonValue]] = {}
    unconfirmed: dict[str, JsonValue] = {}
    unconfirmed_usage: Usage = Usage()


class Savings(Frozen):
    """What the loop did not send, against a loop that resends everything each time.

    `evaluator_tokens` is what the evaluator used, of `evaluator_limit` tokens that are its share
    (None: no limit).
    """

    naive_input_tokens: int = 0
    input_tokens: int = 0
    evaluations_skipped: int = 0
    judge_calls_saved: int = 0
    evaluator_tokens: int = 0
    evaluator_limit: int | None = None


class Exhausted(Frozen):
    """Which limit ended or cut the run, with its figures."""

    dimension: str
    text: str


class Artifact(Frozen):
    """A deliverable: a patch, a tree, a file."""

    kind: str
    ref: str
    note: str = ""


class RunResult(Frozen):
    """The end of a run: the best output, why it stopped, and what it cost.

    `truncated`: the model's answer was cut at its limit. `excerpt`: `output` is only the beginning
    of what `output_ref` holds. With an output schema `value` is the answer as a value, where it is
    here whole; `fits_schema` whether it fits (None without a schema), `misfits` what is wrong.
    `model` and `request_id` are those of the reply that the output is from, or else of the last.
    """

    type: Literal["result"] = "result"
    id: str
    kind: str
    outcome: Outcome
    reason: str
    explanation: str
    quality_met: bool = False
    partial: bool = False
    output: str | None = None
    output_ref: str | None = None
    excerpt: bool = False
    value: JsonValue | None = None
    fits_schema: bool | None = None
    misfits: tuple[str, ...] = ()
    best: Mark | None = None
    last: Mark | None = None
    iterations: tuple[IterationRecord, ...] = ()
    iteration_count: int = 0
    spend: SpendReport = SpendReport()
    savings: Savings = Savings()
    open_findings: tuple[dict[str, JsonValue], ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    tools_used: dict[str, int] = {}
    tool_successes: int = 0
    exhausted: Exhausted | None = None
    skills: tuple[str, ...] = ()
    read_only: bool = False
    tools_created: tuple[str, ...] = ()
    made_tools: dict[str, str] = {}
    transcript: str | None = None
    learnings_started: bool = False
    unread_input: tuple[str, ...] = ()
    confidence: float | None = None
    model: str | None = None
    request_id: str | None = None
    models_used: tuple[str, ...] = ()
    truncated: bool = False
    error: str | None = None
    forked_from: Origin | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


def with_value(result: RunResult) -> RunResult:
    """The result with its output as a value too, where one fits the schema and is here whole."""
    if not result.fits_schema or result.output is None or result.excerpt:
        return result
    return result.model_copy(update={"value": read_json(result.output)})


def with_reply_facts(result: RunResult) -> RunResult:
    """The result with the model and the provider's request id of the reply it is from."""
    replied = [record for record in result.iterations if record.model is not None]
    returned = result.best.iteration if result.best and result.kind == "refine" else None
    own = [record for record in replied if record.index == returned] or replied
    if not own:
        stages = [stage.model for record in result.iterations for stage in record.stages]
        model = next((name for name in reversed(stages) if name), None)
        return result.model_copy(update={"model": model})
    return result.model_copy(update={"model": own[-1].model, "request_id": own[-1].request_id})


def exit_code(outcome: Outcome) -> int:
    """0 when there is a result to use, 1 when the run ended badly."""
    return 1 if outcome in BAD_OUTCOMES else 0
