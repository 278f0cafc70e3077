"""The metrics of Perdure by name: what they count, in which unit, and by which labels.

This is their one definition: what Prometheus reads and what OTLP carries are made from it. Workers
count what happens; workflow code with `workflow.metric_meter()`, activities through the telemetry
adapter. The API observes how the installation stands. No metric comes from both, so nothing that is
added up is counted twice. Names are plain words with underscores: every exporter takes them.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """One instrument: `labels` are the attributes that a measurement carries.

    A unit in braces is a remark: Prometheus puts any other one behind the name.
    """

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    unit: str
    description: str
    labels: tuple[str, ...] = ()

    @property
    def in_prometheus(self) -> str:
        """The name of its family in Prometheus, without `_bucket`, `_sum` and `_count`."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


TOKENS = Metric(
    "perdure_tokens",
    "counter",
    "{token}",
    "Tokens of model calls; type is input, output, cache_read, cache_creation or unconfirmed.",
    ("model", "type"),
)
COST = Metric(
    "perdure_cost_usd",
    "counter",
    "{USD}",
    "Cost of model calls whose price is known, unconfirmed attempts at their estimate.",
    ("model",),
)
MODEL_CALL_SECONDS = Metric(
    "perdure_model_call_seconds",
    "histogram",
    "s",
    "Duration of one attempt of a model call or judgement; status is its end.",
    ("model", "step", "status"),
)
TOOL_CALLS = Metric(
    "perdure_tool_calls",
    "counter",
    "{call}",
    "Attempts of tool calls by outcome; outcome failed means that the step itself broke, "
    "and interrupted that it was cancelled or its worker stopped. "
    "Generated tools count together, as the tool made.",
    ("tool", "outcome"),
)
DECISIONS = Metric(
    "perdure_decisions",
    "counter",
    "{decision}",
    "Decisions after an evaluation.",
    ("kind", "decision"),
)
GATE_WAIT_SECONDS = Metric(
    "perdure_gate_wait_seconds",
    "histogram",
    "s",
    "How long a gate waited for its answer.",
    ("kind",),
)
STAGES = Metric(
    "perdure_stages",
    "counter",
    "{stage}",
    "Stages of loops of roles that are over, by how they ended.",
    ("role", "status"),
)
VERDICTS = Metric(
    "perdure_verdicts",
    "counter",
    "{verdict}",
    "Verdicts of review stages and goal judges; rework counts rejections for the same findings.",
    ("verdict", "rework"),
)
MADE_TOOLS = Metric(
    "perdure_made_tools",
    "counter",
    "{event}",
    "What became of tools that workers asked for: created, cached, refused, or sent to repair.",
    ("event",),
)

WORKER_METRICS = (
    TOKENS,
    COST,
    MODEL_CALL_SECONDS,
    TOOL_CALLS,
    DECISIONS,
    GATE_WAIT_SECONDS,
    STAGES,
    VERDICTS,
    MADE_TOOLS,
)

RUNS = Metric(
    "perdure_runs",
    "gauge",
    "{run}",
    "Runs in the store by kind, lifecycle and outcome (empty while they are open).",
    ("kind", "lifecycle", "outcome"),
)
RUN_ENDS = Metric(
    "perdure_run_ends",
    "counter",
    "{run}",
    "Ends of runs, also of those that the store no longer has.",
    ("kind", "lifecycle", "outcome"),
)
RUNS_WAITING = Metric("perdure_runs_waiting", "gauge", "{run}", "Runs that wait for a person.")
RUNS_FAILING = Metric(
    "perdure_runs_failing", "gauge", "{run}", "Open runs whose code keeps failing in the worker."
)
RUNS_STRANDED = Metric(
    "perdure_runs_stranded",
    "gauge",
    "{run}",
    "Open runs that are pinned to a build of which no worker is left.",
)
NOTICES_DEAD = Metric(
    "perdure_notices_dead",
    "gauge",
    "{notice}",
    "Notices that no channel took, given up within the last day.",
)
STARTS_REFUSED = Metric(
    "perdure_schedule_starts_refused",
    "gauge",
    "{start}",
    "Starts of a schedule that its budget refused within the last day.",
    ("schedule",),
)
STARTS_MISSED = Metric(
    "perdure_schedule_starts_missed",
    "counter",
    "{start}",
    "Starts of a schedule that came too late to be made up for.",
    ("schedule",),
)
COLLECTION_FAILING = Metric(
    "perdure_collection_failing",
    "gauge",
    "1",
    "1 while the newest scheduled collection of garbage failed, or fails and is tried again.",
)
COLLECTION_OVERDUE = Metric(
    "perdure_collection_overdue_seconds",
    "gauge",
    "s",
    "For how long a scheduled collection of garbage should have succeeded again.",
)
MODEL_CALLS = Metric(
    "perdure_model_calls",
    "counter",
    "{call}",
    "Attempts of model calls in the journal that were sent and whose figures are final.",
    ("model",),
)
MODEL_CALLS_UNCONFIRMED = Metric(
    "perdure_model_calls_unconfirmed",
    "counter",
    "{call}",
    "Attempts that no provider confirmed, booked at an estimate: their worker died.",
    ("model",),
)
MODEL_CALLS_UNSETTLED = Metric(
    "perdure_model_calls_unsettled",
    "gauge",
    "{call}",
    "Lost attempts whose worker may yet report; the counters have them once that is settled.",
    ("model",),
)
MODEL_COST_UNSETTLED = Metric(
    "perdure_model_cost_unsettled_usd",
    "gauge",
    "{USD}",
    "Known estimates of the lost attempts whose worker may yet report.",
    ("model",),
)
MODEL_TOKENS = Metric(
    "perdure_model_tokens",
    "counter",
    "{token}",
    "Tokens in the journal; type is input, cache_read or output.",
    ("model", "type"),
)
MODEL_COST = Metric(
    "perdure_model_cost_usd", "counter", "{USD}", "Known costs in the journal.", ("model",)
)
PHASE_CALLS = Metric(
    "perdure_phase_calls",
    "counter",
    "{call}",
    "Attempts of model calls in the journal that were sent and whose figures are final.",
    ("phase",),
)
PHASE_TOKENS = Metric(
    "perdure_phase_tokens",
    "counter",
    "{token}",
    "Tokens in the journal; type is input, cache_read or output.",
    ("phase", "type"),
)
PHASE_COST = Metric(
    "perdure_phase_cost_usd", "counter", "{USD}", "Known costs in the journal.", ("phase",)
)
QUEUE_BACKLOG = Metric(
    "perdure_queue_backlog",
    "gauge",
    "{task}",
    "Tasks that wait for a worker, about; queue is loops, models or tools.",
    ("queue",),
)
QUEUE_BACKLOG_AGE = Metric(
    "perdure_queue_backlog_age_seconds",
    "gauge",
    "s",
    "How long the oldest task of a queue waits for a worker.",
    ("queue",),
)
QUEUE_POLLERS = Metric(
    "perdure_queue_pollers",
    "gauge",
    "{worker}",
    "Workers that fetched from a queue of late.",
    ("queue",),
)
PART_UP = Metric(
    "perdure_part_up",
    "gauge",
    "{part}",
    "Whether a part answers: 1 or 0; part is store or server.",
    ("part",),
)
STORE_BYTES = Metric(
    "perdure_store_bytes",
    "gauge",
    "By",
    "Size of the database by table with its indexes; the whole of it in SQLite (table all).",
    ("table",),
)

INSTALLATION_METRICS = (
    RUNS,
    RUN_ENDS,
    RUNS_WAITING,
    RUNS_FAILING,
    RUNS_STRANDED,
    NOTICES_DEAD,
    STARTS_REFUSED,
    STARTS_MISSED,
    COLLECTION_FAILING,
    COLLECTION_OVERDUE,
    MODEL_CALLS,
    MODEL_CALLS_UNCONFIRMED,
    MODEL_CALLS_UNSETTLED,
    MODEL_COST_UNSETTLED,
    MODEL_TOKENS,
    MODEL_COST,
    PHASE_CALLS,
    PHASE_TOKENS,
    PHASE_COST,
    QUEUE_BACKLOG,
    QUEUE_BACKLOG_AGE,
    QUEUE_POLLERS,
    PART_UP,
    STORE_BYTES,
)

METRICS = (*WORKER_METRICS, *INSTALLATION_METRICS)
