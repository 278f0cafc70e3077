"""Figures and foreign text."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.run.result import ToolMetrics
from perdure.domain.run.status import RunStatus
from perdure.interfaces.cli.views.status import moved_on
from perdure.interfaces.formatting import (
    ago,
    cure_of,
    duration,
    money,
    one_line,
    place_of,
    roughly_ago,
    score,
    some_of,
    sparkline,
    tokens,
    tools_made_words,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "unknown"),
        (Decimal(0), "$0"),
        (Decimal("0.00001"), "<$0.0001"),
        (Decimal("0.0001"), "$0.0001"),
        (Decimal("0.0012"), "$0.0012"),
        (Decimal("0.01"), "$0.01"),
        (Decimal("0.319"), "$0.32"),
        (Decimal(2), "$2.00"),
    ],
)
def test_money_shows_as_many_digits_as_it_needs(value: Decimal | None, told: str) -> None:
    assert money(value) == told


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (9_949, "9.9k"),
        (9_999, "10k"),
        (38_400, "38k"),
        (999_499, "999k"),
        (999_999, "1.0M"),
        (1_250_000, "1.2M"),
    ],
)
def test_tokens(count: int, told: str) -> None:
    assert tokens(count) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
        (7_800, "2 h 10 min"),
        (86_400 * 4 + 3_600, "4 d 1 h"),
    ],
)
def test_duration(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("value", "told"), [(None, "–"), (0, "0.00"), (0.894, "0.89"), (0.999, "0.99"), (1.0, "1.00")]
)
def test_a_score_is_never_rounded_up_to_full(value: float | None, told: str) -> None:
    assert score(value) == told


def test_sparkline_has_one_sign_per_iteration() -> None:
    assert sparkline([0.0, 0.5, None, 1.0]) == "▁▅·█"


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


@pytest.mark.parametrize(
    ("finding", "checked", "told"),
    [
        ({"fix": "loosen up", "location": "line 3"}, False, " (at line 3)  → loosen up"),
        ({"fix": "exactly 3 lines"}, True, "  wanted: exactly 3 lines"),
        ({"fix": " ", "location": ""}, False, ""),
        ({"fix": 3, "location": ["x"]}, True, ""),
        ("words", False, ""),
        (None, True, ""),
    ],
)
def test_a_finding_says_where_it_is_and_what_would_cure_it(
    finding: JsonValue, checked: bool, told: str
) -> None:
    assert place_of(finding) + cure_of(finding, checked=checked) == told


@pytest.mark.parametrize(
    ("lifecycle", "step", "active"),
    [
        ("running", "call_model", 58.0),
        ("running", None, 25.0),
        ("waiting", "call_model", 25.0),
        ("paused", None, 25.0),
    ],
)
def test_the_clock_of_a_step_in_flight_goes_on(
    lifecycle: str, step: str | None, active: float
) -> None:
    status = RunStatus.model_validate(
        {
            "id": "refine-x",
            "kind": "refine",
            "goal": "g",
            "phase": "executing",
            "lifecycle": lifecycle,
            "started_at": START,
            "elapsed_s": 25.0,
            "step": None if step is None else {"what": step, "since": START},
            "budget": {"limits": {}, "active_time_s": 25.0},
        }
    )
    moved = moved_on(status, START + timedelta(seconds=58))
    assert (moved.elapsed_s, moved.budget.active_time_s) == (58.0, active)


@pytest.mark.parametrize(
    ("asked", "active"),
    [
        pytest.param({}, 58.0, id="both work"),
        pytest.param({"r.w1-a": 30}, 58.0, id="one works"),
        pytest.param({"r.w1-a": 30, "r.w2-b.w1-c": 40}, 40.0, id="both wait"),
        pytest.param({"r.w1-a": 30, "r.w2-b": 20}, 30.0, id="one has long waited"),
        pytest.param({"r.w1-a": 10, "r.w2-b": 20}, 25.0, id="both have long waited"),
        pytest.param({"r.w1-a": 30, "r.w2-bc": 40}, 58.0, id="another of a longer name"),
    ],
)
def test_children_that_all_wait_for_a_person_do_not_work(
    asked: dict[str, int], active: float
) -> None:
    questions = [
        {
            **{"run": run, "gate": "g1", "kind": "question", "prompt": "which?"},
            "opened_at": START + timedelta(seconds=seconds),
        }
        for run, seconds in asked.items()
    ]
    status = RunStatus.model_validate(
        {
            "id": "r",
            "kind": "roles",
            "goal": "g",
            "phase": "working",
            "lifecycle": "running",
            "started_at": START,
            "elapsed_s": 25.0,
            "step": {"what": "2 child runs", "since": START},
            "children": ["r.w1-a", "r.w2-b"],
            "questions": questions,
            "budget": {"limits": {}, "active_time_s": 25.0},
        }
    )
    moved = moved_on(status, START + timedelta(seconds=58))
    assert (moved.elapsed_s, moved.budget.active_time_s) == (58.0, active)


@pytest.mark.parametrize(
    ("names", "metrics", "told"),
    [
        ((), ToolMetrics(), ""),
        (("text.count",), ToolMetrics(attempts=1, successes=1), "text.count (of 1 draft)"),
        (
            ("a.b", "a.c"),
            ToolMetrics(
                attempts=4, successes=2, cache_hits=1, failures={"static": 3, "name": 1},
                repairs_tried=2, repairs_won=1,
            ),
            "a.b, a.c (of 4 drafts; 1 known before; 1 of 2 repairs held; "
            "failed checks: name 1, static 3)",
        ),
        ((), ToolMetrics(attempts=2, failures={"limits": 2}),
         "none (of 2 drafts; failed checks: limits 2)"),
    ],
    ids=["nothing wanted", "one", "all that can happen", "none made"],
)  # fmt: skip
def test_tools_made_are_told_with_what_became_of_the_drafts(
    names: tuple[str, ...], metrics: ToolMetrics, told: str
) -> None:
    assert tools_made_words(names, metrics) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0 s"), (9.7, "10 s"), (59, "59 s"), (1_078, "17 min"), (9_000, "2 h"), (10**6, "11 d")],
)
def test_a_page_tells_the_largest_unit_alone(seconds: float, told: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert roughly_ago(now - timedelta(seconds=seconds), now) == f"{told} ago"
    assert roughly_ago(None, now) == ""


AHEAD = {
    "a little": (-2, "0.0 s ago", "0 s ago"),
    "minutes": (-150, "2 min 30 s ahead of this clock", "2 min ahead of this clock"),
    "days": (-3 * 86_400, "3 d ahead of this clock", "3 d ahead of this clock"),
    "behind": (90, "1 min 30 s ago", "1 min ago"),
}


@pytest.mark.parametrize(("seconds", "told", "roughly"), AHEAD.values(), ids=AHEAD.keys())
def test_a_clock_that_is_ahead_is_told_as_such(seconds: float, told: str, roughly: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    moment = now - timedelta(seconds=seconds)
    assert (ago(moment, now), roughly_ago(moment, now)) == (told, roughly)


def test_of_very_many_names_a_few_are_told() -> None:
    assert some_of(["a", "b"]) == "a, b"
    assert some_of([f"r{n}" for n in range(1_012)], 2) == "r0, r1 and 1,010 more"
