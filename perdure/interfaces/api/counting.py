"""Figures of runs: one run's own, and all runs' as Prometheus reads them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from perdure.domain.costs import CostLine, CostReport
from perdure.domain.events import Event
from perdure.domain.ports import StoredRun
from perdure.domain.result import IterationRecord
from perdure.domain.status import RunStatus
from perdure.interfaces.api.views import RunMetrics

Labels = tuple[tuple[str, str], ...]


def metrics_of(
    status: RunStatus, records: Sequence[IterationRecord], costs: CostReport
) -> RunMetrics:
    """The figures of one run, from its records, its events and the journal."""
    events = status.events
    verdicts = Counter(
        str(event.data.get("verdict", "unknown")) for event in _of(events, "verdict")
    )
    return RunMetrics(
        id=status.id,
        kind=status.kind,
        lifecycle=status.lifecycle,
        iterations=len(records),
        by_decision=_counted(record.decision for record in records),
        by_evaluation=_counted(record.evaluation for record in records),
        findings=_counted(
            str(finding.get("severity", "unknown"))
            for record in records
            for finding in record.findings
        ),
        errors=sum(record.error is not None for record in records),
        tool_calls=sum(record.tool_calls for record in records),
        model_calls=costs.total.attempts,
        verdicts=dict(sorted(verdicts.items())),
        tokens=costs.total.usage.counted_tokens(),
        cost_usd=costs.total.cost_usd,
        duration_s=status.elapsed_s,
    )


def exposition(runs: Iterable[StoredRun], costs: CostReport, *, waiting: int | None) -> str:
    """All runs of the store in the text format of Prometheus.

    Args:
        runs: all rows.
        costs: the journal's sums over them.
        waiting: open questions; None where the server does not answer.
    """
    by_state = Counter((row.kind, row.lifecycle, row.outcome or "") for row in runs)
    families = [
        _family(
            "perdure_runs",
            "Runs by kind, lifecycle and outcome (empty while they are open).",
            {
                (("kind", kind), ("lifecycle", stands), ("outcome", outcome)): count
                for (kind, stands, outcome), count in sorted(by_state.items())
            },
        ),
        *_spent("phase", costs.by_phase),
        *_spent("model", costs.by_model),
    ]
    if waiting is not None:
        families.append(_family("perdure_gates_open", "Questions for a person.", {(): waiting}))
    return "".join(families)


def _spent(label: str, lines: Mapping[str, CostLine]) -> list[str]:
    tokens: dict[Labels, int | Decimal] = {}
    money: dict[Labels, int | Decimal] = {}
    calls: dict[Labels, int | Decimal] = {}
    for name, line in lines.items():
        of = ((label, name),)
        usage = line.usage
        tokens[(*of, ("type", "input"))] = usage.prompt_tokens - usage.cache_read_tokens
        tokens[(*of, ("type", "cache_read"))] = usage.cache_read_tokens
        tokens[(*of, ("type", "output"))] = usage.output_tokens
        calls[of] = line.attempts
        if line.cost_usd is not None:
            money[of] = line.cost_usd
    return [
        _family(f"perdure_{label}_tokens_total", f"Tokens by {label}.", tokens),
        _family(f"perdure_{label}_calls_total", f"Model calls by {label}.", calls),
        _family(f"perdure_{label}_cost_usd_total", f"Known costs by {label}, in USD.", money),
    ]


def _family(name: str, told: str, samples: Mapping[Labels, int | Decimal]) -> str:
    kind = "counter" if name.endswith("_total") else "gauge"
    lines = [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{_labels(labels)} {_figure(value)}" for labels, value in samples.items()]
    return "\n".join(lines) + "\n"


def _figure(value: int | Decimal) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _labels(labels: Labels) -> str:
    shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{shown}}}" if shown else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _of(events: Iterable[Event], kind: str) -> list[Event]:
    return [event for event in events if event.type == kind]


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
