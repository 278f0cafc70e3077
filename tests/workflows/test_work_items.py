"""What a manager takes over of a child's end: how sure it is, and why it ended."""

from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.delegation.decisions import Envelope
from perdure.domain.delegation.messages import WorkRead
from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.run.result import Mark, RunResult, SpendReport
from perdure.workflows.delegation_parts.work_items import (
    ERROR_CHARACTERS,
    WorkItem,
    report_of,
    work_done,
)
from perdure.workflows.engine.child_runs import ChildOutcome, ChildSpec, NotStarted

WORK = Envelope(worker="m1", instructions="Measure it.")
ORDER = cast(ChildSpec, None)


def ended(
    outcome: Outcome = "accepted",
    reason: str = "completed",
    *,
    kind: str = "delegation",
    explanation: str = "",
    confidence: float | None = None,
    score: float | None = None,
) -> ChildOutcome:
    best = None if score is None else Mark(iteration=1, score=score)
    result = RunResult(
        id="d.w1-m1",
        kind=kind,
        outcome=outcome,
        reason=reason,
        explanation=explanation,
        confidence=confidence,
        best=best,
    )
    return ChildOutcome(order=ORDER, run=result.id, result=result, spend=SpendReport())


@pytest.mark.parametrize(
    ("end", "confidence"),
    [
        (ended(confidence=0.9), 0.9),
        (ended(confidence=0.2, score=0.8), 0.2),
        (ended(confidence=0.0, score=0.8), 0.0),
        (ended(score=0.8), 0.8),
        (ended(), None),
        (ended("best_effort", "gave_up", confidence=0.9), 0.0),
        (ended("best_effort", "stalled", score=0.4), 0.4),
        (ended(kind="agent", confidence=0.9), None),
    ],
    ids=[
        "its own", "its own and that of its work", "none at all", "that of its work alone",
        "nobody said", "it gave up", "it stalled", "a worker says it in its reply",
    ],
)  # fmt: skip
def test_the_confidence_of_a_manager_below_is_its_own(
    end: ChildOutcome, confidence: float | None
) -> None:
    assert work_done(WORK, end).confidence == confidence


LONG = "The file could not be read. " * 40


@pytest.mark.parametrize(
    ("end", "is_cut"),
    [
        (ended("failed", "model_error", explanation=LONG), True),
        (ended("best_effort", "stalled", explanation=LONG), True),
        (ended("out_of_budget", "tokens", explanation=LONG, kind="agent"), True),
        (NotStarted(order=ORDER, why=LONG), True),
        (ChildOutcome(order=ORDER, run="r", result=None, spend=SpendReport(), error=LONG), True),
        (ended("failed", "model_error", explanation="x" * ERROR_CHARACTERS), False),
        (NotStarted(order=ORDER, why="no workers are left"), False),
    ],
    ids=[
        "it failed", "it stalled", "out of budget", "not started", "no result",
        "exactly as long", "short",
    ],
)  # fmt: skip
def test_an_error_that_was_cut_says_so(
    monkeypatch: pytest.MonkeyPatch, end: ChildOutcome | NotStarted, is_cut: bool
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _id: True)  # no workflow runs here
    error = report_of(WorkItem(WORK, "", end, WorkRead())).error
    assert 0 < len(error) <= ERROR_CHARACTERS
    assert error.endswith("…") is is_cut
