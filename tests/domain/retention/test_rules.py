"""Which ended runs are kept no longer."""

from datetime import UTC, datetime, timedelta

import pytest

from perdure.domain.retention.rules import is_expired, read_rules
from perdure.domain.run.status import StoredRun

NOW = datetime(2026, 6, 1, tzinfo=UTC)
RULES = read_rules("7d label=trial-*; keep label=audit-*; 30d outcome=failed; 365d")


def run(*, days: int | None, label: str | None = None, outcome: str = "accepted") -> StoredRun:
    ended = None if days is None else NOW - timedelta(days=days)
    return StoredRun(
        id="r", kind="agent", goal="g", label=label, lifecycle="completed", outcome=outcome,
        started_at=NOW - timedelta(days=999), ended_at=ended,
    )  # fmt: skip


CASES: dict[str, tuple[StoredRun, bool]] = {
    "open": (run(days=None), False),
    "young": (run(days=364), False),
    "old": (run(days=365), True),
    "failed": (run(days=30, outcome="failed"), True),
    "failed a moment ago": (run(days=29, outcome="failed"), False),
    "of a label": (run(days=7, label="trial-3"), True),
    "of another label": (run(days=7, label="Trial-3"), False),
    "kept for good": (run(days=5_000, label="audit-2020"), False),
    "kept before it could fail": (run(days=5_000, label="audit-2020", outcome="failed"), False),
}


@pytest.mark.parametrize(("ended", "gone"), CASES.values(), ids=CASES.keys())
def test_the_first_rule_that_fits_decides(ended: StoredRun, gone: bool) -> None:
    assert is_expired(ended, RULES, NOW) is gone
    assert not is_expired(ended, (), NOW), "without rules nothing goes"


WRONG = {
    "no time": ("outcome=failed", "is no rule, such as"),
    "hours": ("12h", "is no rule"),
    "an outcome that is none": ("7d outcome=faled", "did you mean failed"),
    "another condition": ("7d kind=agent", "neither outcome=… nor label=…"),
    "no value": ("7d label=", "neither outcome=… nor label=…"),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_rule_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_rules(text)


@pytest.mark.parametrize(
    ("label", "kept"),
    [("audit[2026]", True), ("audit[2026]-x", True), ("audit2", False), ("Audit[2026]", False)],
)
def test_only_a_star_stands_for_anything(label: str, kept: bool) -> None:
    rules = read_rules("keep label=audit[2026]*; 1d")
    assert is_expired(run(days=3, label=label), rules, NOW) is not kept
