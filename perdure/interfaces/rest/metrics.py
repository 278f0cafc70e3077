"""Figures of runs: one run's own, and all runs' as Prometheus reads them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from perdure.domain.run.cost_report import CostLine, CostReport
from perdure.domain.run.status import RunStatus, StoredRun
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.rest.schemas import RunMetrics
from perdure.interfaces.services import RunGateway

Labels = tuple[tuple[str, str], ...]
REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Work:
    """How often what happened in the iterations of a run, or of many."""

    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    stages: Counter[tuple[str, str]] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, kind: str, records: Iterable[IterationRecord]) -> "Work":
        """The work of one run of a kind."""
        work = cls()
        for record in records:
            work.decisions[kind, record.decision] += 1
            work.stages.update((stage.role, stage.status) for stage in record.stages)
            work.verdicts.update(verdict.kind for verdict in record.verdicts)
        return work

    def add(self, other: "Work") -> None:
        """Count another run's work in."""
        self.decisions.update(other.decisions)
        self.stages.update(other.stages)
        self.verdicts.update(other.verdicts)


class WorkSeen:
    """The work of all runs; what a run did that has ended is read once."""

    def __init__(self, gateway: RunGateway) -> None:
        self._gateway = gateway
        self._ended: dict[str, tuple[datetime, Work]] = {}

    async def total(self, runs: Sequence[StoredRun]) -> Work:
        """The work of these runs together."""
        total = Work()
        for row in runs:
            total.add(await self._of(row))
        return total

    async def _of(self, row: StoredRun) -> Work:
        known = self._ended.get(row.id)
        if known is not None and known[0] == row.ended_at:
            return known[1]
        work = Work.of(row.kind, await self._gateway.records(row.id))
        if row.ended_at is not None:
            self._ended[row.id] = row.ended_at, work
        return work


def metrics_of(
    status: RunStatus, records: Sequence[IterationRecord], costs: CostReport
) -> RunMetrics:
    """The figures of one run, from its records and the journal."""
    work = Work.of(status.kind, records)
    stages: dict[str, dict[str, int]] = {}
    for (role, stands), count in sorted(work.stages.items()):
        stages.setdefault(role, {})[stands] = count
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
        stages=stages,
        verdicts=dict(sorted(work.verdicts.items())),
        rework=work.verdicts[REJECTED],
        tokens=costs.total.usage.counted_tokens(),
        cost_usd=costs.total.cost_usd,
        duration_s=status.elapsed_s,
    )


def exposition(
    runs: Iterable[StoredRun], work: Work, costs: CostReport, *, waiting: int | None
) -> str:
    """All runs of the store in the text format of Prometheus.

    Args:
        runs: all rows.
        work: what their iterations did.
        costs: the journal's sums over them.
        waiting: runs that wait for a person; None where the server does not answer.
    """
    by_state = Counter((row.kind, row.lifecycle, row.outcome or "") for row in runs)
    families = [
        _counts(
            "perdure_runs",
            "Runs by kind, lifecycle and outcome (empty while they are open).",
            ("kind", "lifecycle", "outcome"),
            by_state,
        ),
        _counts(
            "perdure_iterations_total",
            "Iterations by kind of run and decision.",
            ("kind", "decision"),
            work.decisions,
        ),
        _counts("perdure_stages_total", "Stages by role and end.", ("role", "status"), work.stages),
        _family(
            "perdure_verdicts_total",
            "Verdicts of gate stages and goal judges.",
            {(("verdict", kind),): count for kind, count in sorted(work.verdicts.items())},
        ),
        *_spent("phase", costs.by_phase),
        *_spent("model", costs.by_model),
    ]
    if waiting is not None:
        told = "Runs that wait for a person."
        families.append(_family("perdure_runs_waiting", told, {(): waiting}))
    return "".join(families)


def _counts(
    name: str, told: str, labels: tuple[str, ...], counted: Mapping[tuple[str, ...], int]
) -> str:
    samples = {
        tuple(zip(labels, values, strict=True)): count for values, count in sorted(counted.items())
    }
    return _family(name, told, samples)


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


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
