"""Counters of what workflows decide.

They use the SDK's meter, which is silent during replay: a meter of our own would count a decision
again each time a worker replays the history.
"""

from temporalio import workflow

from perdure.domain.run.metrics import (
    DECISIONS,
    GATE_WAIT_SECONDS,
    MADE_TOOLS,
    STAGES,
    VERDICTS,
    Metric,
)


def count_decision(kind: str, decision: str) -> None:
    """Count one decision after an evaluation."""
    _count(DECISIONS, kind=kind, decision=decision)


def record_gate_wait(gate_kind: str, seconds: float) -> None:
    """Record how long a person let a gate wait."""
    histogram = workflow.metric_meter().create_histogram_float(
        GATE_WAIT_SECONDS.name, GATE_WAIT_SECONDS.description, GATE_WAIT_SECONDS.unit
    )
    histogram.record(seconds, {"kind": gate_kind})


def count_tool(event: str) -> None:
    """Count an event in the life of a generated tool."""
    _count(MADE_TOOLS, event=event)


def count_stage(role: str, status: str) -> None:
    """Count a finished stage of a loop of roles."""
    _count(STAGES, role=role, status=status)


def count_verdict(verdict: str, *, rework: bool) -> None:
    """Count one verdict; `rework`: the same findings came back."""
    _count(VERDICTS, verdict=verdict, rework=str(rework).lower())


def _count(metric: Metric, **labels: str) -> None:
    meter = workflow.metric_meter()
    meter.create_counter(metric.name, metric.description, metric.unit).add(1, labels)
