"""Random plans with workers that honestly fail, half succeed, or do good work.

Nothing is done that nobody did, no run ends while it improves, and every run ends with a reason.
"""

from collections.abc import Sequence
from random import Random

import pytest

from perdure.domain.delegation.apply_decision import decide
from perdure.domain.delegation.decisions import Delegate, Envelope, MakePlan, Subtask
from perdure.domain.delegation.next_step import End, Work
from perdure.domain.delegation.plan import Node
from perdure.domain.delegation.progress import (
    ManagerProgress,
    after_delegation,
    planned_end,
    progress_end,
)
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.evaluation.outcomes import RunEnd

SETTINGS = DelegationSettings(max_iterations=30)
RANGES = {
    "crashed": (0.0, 0.0),
    "failed": (0.0, 0.2),
    "doubtful": (0.0, 0.29),
    "partial": (0.3, 0.59),
    "good": (0.6, 1.0),
}
IMPROVED = SETTINGS.stall.min_confidence_delta


def a_plan(chance: Random) -> tuple[Subtask, ...]:
    """A graph of subtasks, each after some of those before it."""
    ids = [f"s{number}" for number in range(chance.randint(1, 8))]
    return tuple(
        Subtask(id=id, title=id, depends_on=tuple(sorted(chance.sample(ids[:n], min(n, 2)))))
        for n, id in enumerate(ids)
    )


def brought(chance: Random) -> WorkerReport:
    """What a worker brings: an honest failure, doubtful, partial or good work, or its crash."""
    kind = chance.choice(("crashed", "failed", "doubtful", "partial", "good", "good"))
    low, high = RANGES[kind]
    sure = round(chance.uniform(low, high), 2)
    if kind == "crashed":
        return WorkerReport(worker="w", end="crashed", error="it was lost")
    if kind == "failed":
        return WorkerReport(worker="w", confidence=sure, stated=sure, error="it did not work")
    finding = chance.choice(("steel", "glass", "cork"))
    return WorkerReport(
        worker="w",
        confidence=sure,
        stated=sure,
        critique=chance.choice((None, round(chance.random(), 2))),
        key_finding=finding,
        usable=True,
        output=f"sha256:{finding}",
    )


def did(report: WorkerReport) -> bool:
    """Whether somebody did the work: a result that its reviewer, or else its worker, stands by."""
    if not report.usable:
        return False
    if report.critique is not None:
        return report.critique >= SETTINGS.critique.min_mean
    return (report.stated or 0.0) >= SETTINGS.min_confidence


def improves(scores: Sequence[float]) -> bool:
    """Whether the newest reading is better than all before it, by the smallest gain."""
    *before, newest = scores
    return bool(before) and round(newest - max(before), 6) >= IMPROVED


def workable(nodes: Sequence[Node]) -> list[Node]:
    """Subtasks that may be worked on: all they wait for is done, and they are not."""
    done = {node.id for node in nodes if node.status == "done"}
    return [n for n in nodes if n.status != "done" and set(n.depends_on) <= done]


@pytest.mark.parametrize("seed", range(100))
def test_nothing_is_done_that_nobody_did_and_improving_work_goes_on(seed: int) -> None:
    chance = Random(seed)
    course, _ = decide(
        ManagerProgress().with_next_iteration(),
        MakePlan(decision="plan", subtasks=a_plan(chance)),
        settings=SETTINGS,
        phase="core_work",
    )
    newest: dict[str, WorkerReport] = {}
    end: RunEnd | None = None
    while end is None and (open_ones := workable(course.plan.nodes)):
        end = planned_end(course, SETTINGS)
        if end is not None:
            break
        chosen = open_ones[: chance.randint(1, 3)]
        work = Delegate(
            decision="delegate",
            delegations=tuple(
                Envelope(worker=f"w-{node.id}-{course.iteration}", subtask=node.id,
                         instructions=f"try {course.iteration}: {node.title}")
                for node in chosen
            ),
        )  # fmt: skip
        course, directive = decide(
            course.with_next_iteration(), work, settings=SETTINGS, phase="core_work"
        )
        if isinstance(directive, End):
            end = directive.verdict
            break
        if not isinstance(directive, Work):
            continue
        reports = [
            brought(chance).model_copy(
                update={"worker": envelope.worker, "subtask": envelope.subtask}
            )
            for envelope in directive.envelopes
        ]
        newest |= {report.subtask: report for report in reports if report.subtask}
        output = next((report.output for report in reports if report.output), None)
        course, verdict = after_delegation(
            course,
            directive.envelopes,
            reports,
            output=output,
            similarity=chance.choice((None, 0.2, 0.99)),
            settings=SETTINGS,
        )
        scores = [reading.confidence for reading in course.progress.readings]
        end = progress_end(course, SETTINGS, verdict)
        assert not (end is not None and improves(scores)), (end, scores)
    done = {node.id for node in course.plan.nodes if node.status == "done"}
    assert all(id in newest and did(newest[id]) for id in done)
    assert end is None or end.outcome == "best_effort"
