"""Runs as tests show them: statuses, results, records, gates, events with fixed figures."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.llm.usage import Usage
from perdure.domain.run.events import Event, EventType
from perdure.domain.run.gates import Gate
from perdure.domain.run.result import Artifact, Mark, RunResult, Savings, SpendReport
from perdure.domain.run.status import BudgetStatus, CurrentStep, Part, Point, RunStatus
from perdure.domain.turns.records import DimensionRecord, IterationRecord

RUN = "refine-steel-bottle-7f3a"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
START = NOW - timedelta(seconds=42)
WEB = f"http://127.0.0.1:8233/namespaces/default/workflows/{RUN}"


def gate(**changes: object) -> Gate:
    values: dict[str, object] = {
        "id": "g1",
        "kind": "tool_approval",
        "prompt": "May fs.write change README.md?",
        "choices": ("approve", "deny"),
        "opened_at": NOW - timedelta(minutes=5),
        "args_hash": "ab" * 32,
    }
    return Gate.model_validate({**values, **changes})


def status(**changes: object) -> RunStatus:
    values: dict[str, object] = {
        "id": RUN,
        "kind": "refine",
        "goal": "Write a product text for a steel water bottle.",
        "lifecycle": "running",
        "phase": "executing",
        "iteration": 2,
        "iteration_limit": 6,
        "elapsed_s": 4.2,
        "step": CurrentStep(what="model call smollm2", since=START),
        "trajectory": (
            Point(iteration=1, score=0.73, decision="continue"),
            Point(iteration=2, score=0.89, decision="continue"),
        ),
        "parts": (Part(name="line 1", passed=True), Part(name="line 2", passed=False)),
        "best": Mark(iteration=2, score=0.89),
        "budget": BudgetStatus(
            limits=BudgetLimits(),
            tokens=4_200,
            cost_usd=Decimal("0.0123"),
            model_calls=3,
            active_time_s=3.5,
            fraction_remaining=0.62,
        ),
        "links": {"temporal": WEB},
        "started_at": START,
    }
    return RunStatus.model_validate({**values, **changes})


def record(index: int, score: float | None = None, **changes: object) -> IterationRecord:
    values: dict[str, object] = {
        "index": index,
        "score": score,
        "evaluation": "full",
        "usage": Usage(input_tokens=1_000, output_tokens=200),
        "cost_usd": Decimal("0.02"),
        "model_calls": 2,
        "duration_s": 1.25,
        "output_ref": f"sha256:{index:064x}",
        "transcript": f"sha256:{index + 100:064x}",
    }
    return IterationRecord.model_validate({**values, **changes})


RECORDS = (
    record(
        1,
        0.73,
        dimensions={
            "tone": DimensionRecord(score=0.6, source="judge", gap="stiff"),
            "short": DimensionRecord(score=1.0, source="check"),
        },
        findings=(
            {
                "id": "F1",
                "severity": "important",
                "dimension": "tone",
                "title": "too formal",
                "fix": "write as you speak",
            },
        ),
    ),
    record(
        2,
        0.89,
        decision="accept",
        evaluation="incremental",
        dimensions={
            "tone": DimensionRecord(score=0.85, source="judge", gap="a little stiff"),
            "short": DimensionRecord(score=1.0, source="check", carried=True),
        },
    ),
)


def result(**changes: object) -> RunResult:
    values: dict[str, object] = {
        "id": RUN,
        "kind": "refine",
        "outcome": "accepted",
        "reason": "quality_met",
        "explanation": "The result reached the quality that was asked for.",
        "quality_met": True,
        "output": "A bottle of steel.\nGoes into the dishwasher.",
        "output_ref": f"sha256:{2:064x}",
        "best": Mark(iteration=2, score=0.89),
        "last": Mark(iteration=2, score=0.89),
        "iterations": RECORDS,
        "iteration_count": 2,
        "spend": SpendReport(
            tokens=38_000,
            cost_usd=Decimal("0.32"),
            model_calls=4,
            wall_time_s=5.5,
            active_time_s=4.0,
            usage=Usage(input_tokens=36_000, output_tokens=2_000),
        ),
        "savings": Savings(naive_input_tokens=60_000, input_tokens=36_000, judge_calls_saved=1),
        "transcript": f"sha256:{102:064x}",
        "models_used": ("claude-sonnet-4-5",),
        "started_at": START,
        "ended_at": NOW,
    }
    return RunResult.model_validate({**values, **changes})


def patch_result() -> RunResult:
    artifacts = (
        Artifact(kind="patch", ref=f"sha256:{7:064x}"),
        Artifact(kind="tree", ref=f"sha256:{8:064x}"),
    )
    return result(artifacts=artifacts)


def event(seq: int, type: EventType, *, iteration: int = 1, **data: object) -> Event:
    return Event.model_validate(
        {"seq": seq, "at": NOW, "run": RUN, "iteration": iteration, "type": type, "data": data}
    )
