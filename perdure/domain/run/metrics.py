"""The metrics of Perdure by name: what they count, in which unit, and by which labels.

Workflow code makes its own from these with `workflow.metric_meter()`, activities through the
telemetry adapter. Names are plain words with underscores: every exporter takes them as they are.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """One instrument: `labels` are the attributes that a measurement carries."""

    name: str
    kind: Literal["counter", "histogram"]
    unit: str
    description: str
    labels: tuple[str, ...] = ()


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
    "USD",
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
    "Attempts of tool calls by outcome; outcome failed means that the step itself broke.",
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
    "Verdicts of gate stages and goal judges; rework counts rejections for the same findings.",
    ("verdict", "rework"),
)
MADE_TOOLS = Metric(
    "perdure_made_tools",
    "counter",
    "{event}",
    "What became of tools that workers asked for: created, cached, refused, or sent to repair.",
    ("event",),
)

METRICS = (
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
