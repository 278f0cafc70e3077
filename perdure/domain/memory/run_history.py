"""The course of an ended run: what the rules of learning look at."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pydantic import AwareDatetime, JsonValue

from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.evaluation.scores import Severity
from perdure.domain.evaluation.trajectory import rounded
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.turns.records import IterationRecord

SEVERITIES: Mapping[str, Severity] = MappingProxyType(
    {"blocker": "blocker", "important": "important", "suggestion": "suggestion"}
)


class EndedRun(FrozenModel):
    """The run that just ended, as its last step knows it.

    `unwritten` are the records that the store may not have yet.
    """

    id: str
    kind: str
    goal: str
    category: str | None = None
    outcome: Outcome
    reason: str
    best_score: float | None = None
    best_iteration: int | None = None
    frame: str | None = None
    unwritten: tuple[IterationRecord, ...] = ()
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime


class PastEvent(FrozenModel):
    """One finding of an iteration, as the rules need it."""

    id: str
    severity: Severity
    dimension: str
    title: str
    fix: str = ""


class RunHistory(FrozenModel):
    """An ended run with all its iterations, in order."""

    run: EndedRun
    records: tuple[IterationRecord, ...] = ()

    @property
    def scored(self) -> tuple[IterationRecord, ...]:
        """The iterations that have a score."""
        return tuple(record for record in self.records if record.score is not None)

    @property
    def best(self) -> IterationRecord | None:
        """The iteration that the run returned as its best."""
        marked = self.run.best_iteration
        return next((record for record in self.records if record.index == marked), None)

    @property
    def findings(self) -> tuple[PastEvent, ...]:
        """Every finding that was ever open, once, in the order in which they came up."""
        found = (noted for record in self.records for noted in noted_in(record))
        return tuple({noted.id: noted for noted in found}.values())


def course_of(run: EndedRun, stored: Iterable[IterationRecord]) -> RunHistory:
    """Put stored and unwritten records together; the unwritten ones are newer."""
    records = {record.index: record for record in (*stored, *run.unwritten)}
    return RunHistory(run=run, records=tuple(record for _, record in sorted(records.items())))


def noted_in(record: IterationRecord) -> tuple[PastEvent, ...]:
    """The findings that were open at the end of an iteration; unreadable ones are left out."""
    return tuple(
        noted for raw in record.findings if (noted := _noted(raw)) is not None and noted.title
    )


def change(before: IterationRecord, after: IterationRecord) -> float:
    """How much the score rose from one iteration to another, rounded as everywhere."""
    return rounded((after.score or 0.0) - (before.score or 0.0))


def _noted(raw: Mapping[str, JsonValue]) -> PastEvent | None:
    severity = SEVERITIES.get(str(raw.get("severity")))
    if severity is None:
        return None
    dimension, title = str(raw.get("dimension") or ""), str(raw.get("title") or "")
    return PastEvent(
        id=str(raw.get("id") or f"{dimension}: {title}"),
        severity=severity,
        dimension=dimension,
        title=title,
        fix=str(raw.get("fix") or ""),
    )
