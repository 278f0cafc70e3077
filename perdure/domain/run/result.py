"""What a run returns; every interface shows this shape."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from pydantic import JsonValue

from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.json_extraction import read_json
from perdure.domain.llm.usage import Usage
from perdure.domain.run.hooks import HookFailure
from perdure.domain.turns.records import IterationRecord

BAD_OUTCOMES: frozenset[Outcome] = frozenset(
    {"failed", "tool_misuse", "no_output", "blocked", "unanswered"}
)


class Origin(FrozenModel):
    """Where a fork began: after an iteration of another run."""

    run: str
    iteration: int


class Mark(FrozenModel):
    """One iteration picked out: the best, or the last."""

    iteration: int
    score: float | None = None
    output_ref: str | None = None


class SpendReport(FrozenModel):
    """What a run spent, with the runs below it; costs are None when a price is unknown.

    Times in seconds. `known_cost_usd` is told where `cost_usd` is None: the cost of all calls that
    have a price. `unconfirmed_usage` is the part of the tokens that nobody confirmed.
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
    known_cost_usd: Decimal | None = None

    @property
    def least_cost_usd(self) -> Decimal:
        """What the run cost at least: without the calls whose price is unknown."""
        known = self.known_cost_usd if self.cost_usd is None else self.cost_usd
        return known or Decimal(0)


class Savings(FrozenModel):
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


class Exhausted(FrozenModel):
    """Which limit ended or cut the run, with its figures."""

    dimension: str
    text: str

    @property
    def figures(self) -> str:
        """What was used of the limit; empty where the text says no more than its name."""
        return "" if self.text == self.dimension else self.text


class Artifact(FrozenModel):
    """A deliverable: a patch, a tree, a file."""

    kind: str
    ref: str
    note: str = ""


class ToolMetrics(FrozenModel):
    """Counts over the tools that a run and the runs below it wanted.

    An attempt is one draft, whatever it took; a failure is one stage not passed, so that a draft
    that was repaired counts there as well.
    """

    attempts: int = 0
    successes: int = 0
    cache_hits: int = 0
    failures: dict[str, int] = {}
    repairs_tried: int = 0
    repairs_won: int = 0

    def attempted(self) -> "ToolMetrics":
        """Count a draft."""
        return self.model_copy(update={"attempts": self.attempts + 1})

    def failed(self, stage: str) -> "ToolMetrics":
        failures = {**self.failures, stage: self.failures.get(stage, 0) + 1}
        return self.model_copy(update={"failures": failures})

    def repairing(self) -> "ToolMetrics":
        return self.model_copy(update={"repairs_tried": self.repairs_tried + 1})

    def succeeded(self, *, cached: bool, repaired: bool) -> "ToolMetrics":
        """Count a tool that is now offered."""
        return self.model_copy(
            update={
                "successes": self.successes + 1,
                "cache_hits": self.cache_hits + cached,
                "repairs_won": self.repairs_won + repaired,
            }
        )

    def __add__(self, other: "ToolMetrics") -> "ToolMetrics":
        """The counts of both."""
        # No set: its order differs between processes, and workflow state must not.
        stages = dict.fromkeys((*self.failures, *other.failures))
        return ToolMetrics(
            attempts=self.attempts + other.attempts,
            successes=self.successes + other.successes,
            cache_hits=self.cache_hits + other.cache_hits,
            failures={
                stage: self.failures.get(stage, 0) + other.failures.get(stage, 0)
                for stage in stages
            },
            repairs_tried=self.repairs_tried + other.repairs_tried,
            repairs_won=self.repairs_won + other.repairs_won,
        )


class RunResult(FrozenModel):
    """The end of a run: the best output, why it stopped, and what it cost.

    `truncated`: the model's answer was cut at its limit. `excerpt`: `output` is only the beginning
    of what `output_ref` holds. With an output schema `value` is the answer as a value, where it is
    here whole; `fits_schema` whether it fits (None without a schema), `misfits` what is wrong.
    `model` and `request_id` are those of the reply that the output is from, or else of the last.
    `tool_metrics` count what became of the tools that the run wanted made. `unsaved_files` are
    files of the working copy that `artifacts` lack, each with why.
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
    unsaved_files: tuple[str, ...] = ()
    tools_used: dict[str, int] = {}
    tool_successes: int = 0
    exhausted: Exhausted | None = None
    skills: tuple[str, ...] = ()
    read_only: bool = False
    tools_created: tuple[str, ...] = ()
    made_tools: dict[str, str] = {}
    tool_metrics: ToolMetrics = ToolMetrics()
    transcript: str | None = None
    learnings_started: bool = False
    unread_input: tuple[str, ...] = ()
    confidence: float | None = None
    model: str | None = None
    request_id: str | None = None
    models_used: tuple[str, ...] = ()
    truncated: bool = False
    error: str | None = None
    hook_failures: tuple[HookFailure, ...] = ()
    forked_from: Origin | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


def with_value(result: RunResult) -> RunResult:
    """The result with its output as a value too, where one fits the schema and is here whole."""
    if not result.fits_schema or result.output is None or result.excerpt:
        return result
    try:
        value = read_json(result.output)
    except ValueError:
        return result  # kept by a version that read less strictly; its text is there
    return result.model_copy(update={"value": value})


def with_reply_facts(result: RunResult) -> RunResult:
    """The result with the model and the provider's request id of the reply it is from."""
    replies = [
        reply
        for record in result.iterations
        for reply in (record, *record.stages)
        if reply.model is not None
    ]
    # The best version is not always the one that is returned: a pass may have scored lower.
    own = [one for one in replies if one.output_ref and one.output_ref == result.output_ref]
    if not (found := own or replies):
        return result
    return result.model_copy(update={"model": found[-1].model, "request_id": found[-1].request_id})


def exit_code(outcome: Outcome) -> int:
    """0 when there is a result to use, 1 when the run ended badly."""
    return 1 if outcome in BAD_OUTCOMES else 0
