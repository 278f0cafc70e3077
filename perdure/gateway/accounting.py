"""The spend and the iterations of a run, from the journal and the records.

They are the source of truth for a run that was terminated, or whose worker or server is away: its
row in the store was written at the start and does not say what happened since.
"""

from collections.abc import Sequence

from perdure.domain.budget.accounting import Budget
from perdure.domain.budget.journal import AttemptRow
from perdure.domain.run.result import Mark, RunResult, SpendReport
from perdure.domain.run.resume import booked_of, booked_report, spent_with
from perdure.domain.run.status import Point, RunStatus
from perdure.domain.turns.records import IterationRecord


def with_books(
    status: RunStatus, rows: Sequence[AttemptRow], records: Sequence[IterationRecord]
) -> RunStatus:
    """The status with newer figures from the store; no figure becomes smaller."""
    limits, account = status.budget.limits, booked_of(rows).account
    spent = spent_with(Budget(limits=limits), account)
    budget = status.budget
    if spent.tokens > budget.tokens or spent.model_calls > budget.model_calls:
        elapsed = status.elapsed_s
        left = Budget(limits=limits, spent=spent).fraction_remaining(wall_time=elapsed)
        budget = budget.model_copy(
            update={
                "tokens": spent.tokens,
                "cost_usd": spent.cost_or_none,
                "model_calls": spent.model_calls,
                "fraction_remaining": round(left, 4),
            }
        )
    calls = sum(record.tool_calls for record in _own(records))
    points = tuple(
        Point(iteration=record.index, score=record.score, decision=record.decision)
        for record in records
    )
    newer = len(points) > len(status.trajectory)
    return status.model_copy(
        update={
            "budget": budget.model_copy(update={"tool_calls": max(budget.tool_calls, calls)}),
            "iteration": max(status.iteration, *(record.index for record in records), 0),
            "trajectory": points if newer else status.trajectory,
            "best": status.best or best_of(records),
        }
    )


def result_with_books(
    result: RunResult, rows: Sequence[AttemptRow], records: Sequence[IterationRecord]
) -> RunResult:
    """The result of a run that returned none itself, with its spend from the journal."""
    spend: SpendReport = booked_report(booked_of(rows))
    began, ended = result.started_at, result.ended_at
    took = (ended - began).total_seconds() if began and ended else 0.0
    own = {
        "tool_calls": sum(record.tool_calls for record in _own(records)),
        "iterations": len(_own(records)),
        "wall_time_s": round(max(0.0, took), 3),
    }
    return result.model_copy(update={"spend": spend.model_copy(update=own)})


def _own(records: Sequence[IterationRecord]) -> list[IterationRecord]:
    """Those that the run made itself: what a fork took over was spent by another run."""
    return [record for record in records if record.origin is None]


def known_sentence(status: RunStatus) -> str:
    """What the store knows of a run, in a sentence for people who cannot follow it now."""
    budget = status.budget
    cost = "" if budget.cost_usd is None else f", {budget.cost_usd:.4f} USD"
    stands = status.outcome or status.lifecycle
    scored = f", best score {status.best.score:.2f}" if status.best and status.best.score else ""
    return (
        f"The store knows of {status.id}: {stands.replace('_', ' ')}, iteration {status.iteration}"
        f"{scored}, {budget.tokens:,} tokens{cost}. What runs goes on when the server is back."
    )


def best_of(records: Sequence[IterationRecord]) -> Mark | None:
    """The best of the scored iterations; None if none has a score."""
    scored = [record for record in records if record.score is not None]
    # Of equal scores the newest counts, as in the loop itself.
    best = max(scored, key=lambda record: (record.score or 0.0, record.index), default=None)
    if best is None:
        return None
    return Mark(iteration=best.index, score=best.score, output_ref=best.output_ref)
