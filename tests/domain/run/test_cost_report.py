"""What a cost report lists, and what it leaves out."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from perdure.domain.budget.journal import AttemptRow
from perdure.domain.llm.usage import Usage
from perdure.domain.run.cost_report import add_up

NOW = datetime(2026, 1, 2, tzinfo=UTC)
USED = Usage(input_tokens=9, output_tokens=1)


def row(phase: str, **given: object) -> AttemptRow:
    common = {
        "key": f"e/{phase}", "attempt": 1, "run": "r", "role": "executor", "iteration": 1,
        "model": f"m-{phase}", "state": "answered", "root": "r", "usage": USED,
        "cost_usd": Decimal("0.1"),
        "started_at": NOW, "seconds": 1.0, "phase": phase,
    }  # fmt: skip
    return AttemptRow.model_validate({**common, **given})


@pytest.mark.parametrize(
    ("given", "listed"),
    [
        ({"sent": False, "usage": Usage(), "cost_usd": Decimal(0)}, False),
        ({"sent": False, "usage": Usage(), "cost_usd": None}, False),
        ({"usage": Usage(), "cost_usd": Decimal(0)}, True),
        ({"sent": False}, True),
        ({}, True),
    ],
    ids=["never sent", "never sent, price unknown", "a free call", "booked all the same", "a call"],
)
def test_a_line_says_something(given: dict[str, object], listed: bool) -> None:
    report = add_up(["r"], [row("execute"), row("judge", **given)])
    assert ("judge" in report.by_phase) == listed
    assert ("m-judge" in report.by_model) == listed
    assert "execute" in report.by_phase
    assert list(report.by_day) == ["2026-01-02"]
