"""Figures of one run, from its records and the journal."""

from collections import Counter
from collections.abc import Iterable, Sequence

from perdure.domain.run.cost_report import CostReport
from perdure.domain.run.status import RunStatus
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.rest.schemas import RunMetrics

REJECTED = "rejected"


def metrics_of(
    status: RunStatus, records: Sequence[IterationRecord], costs: CostReport
) -> RunMetrics:
    counted = Counter((stage.role, stage.status) for one in records for stage in one.stages)
    stages: dict[str, dict[str, int]] = {}
    for (role, stands), count in sorted(counted.items()):
        stages.setdefault(role, {})[stands] = count
    verdicts = Counter(verdict.kind for one in records for verdict in one.verdicts)
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
        verdicts=dict(sorted(verdicts.items())),
        rework=verdicts[REJECTED],
        tokens=costs.total.usage.counted_tokens(),
        cost_usd=costs.total.cost_usd,
        duration_s=status.elapsed_s,
    )


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
