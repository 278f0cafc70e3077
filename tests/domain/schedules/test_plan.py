"""When schedules start, and when their months begin."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from perdure.domain.schedules.plan import SchedulePlan, Times, month_of

BAD_TIMES: dict[str, tuple[dict[str, object], str]] = {
    "nothing": ({}, "either cron expressions or an interval"),
    "both": ({"cron": ["0 9 * * *"], "every_s": 3_600}, "either cron expressions or an interval"),
    "too often": ({"every_s": 59}, "greater than or equal to 60"),
    "an unknown zone": ({"every_s": 60, "time_zone": "Europe/Berlni"}, "did you mean Europe/Berl"),
    "a folder of zones": ({"every_s": 60, "time_zone": "Europe"}, "no time zone 'Europe'"),
    "a path": ({"every_s": 60, "time_zone": "../etc/passwd"}, "no time zone"),
    "a zone in the expression": ({"cron": ["CRON_TZ=Europe/Berlin 0 9 * * *"]}, "into time_zone"),
    "an interval in the expression": ({"cron": ["@every 1h"]}, "give every_s"),
    "words for an expression": ({"cron": ["at noon"]}, "has 2 fields instead of 5"),
    "a name of no time": ({"cron": ["@noon"]}, "has 1 fields instead of 5"),
    "too many fields": ({"cron": ["0 " * 8]}, "has 8 fields instead of 5"),
    "an offset past the interval": ({"every_s": 60, "offset_s": 60}, "must be below every_s"),
    "an offset without one": ({"cron": ["0 9 * * *"], "offset_s": 1}, "goes with every_s"),
    "no number": ({"every_s": float("nan")}, "finite"),
}


@pytest.mark.parametrize(("fields", "words"), BAD_TIMES.values(), ids=BAD_TIMES.keys())
def test_times_that_are_none_are_refused_in_words(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Times.model_validate(fields)


@pytest.mark.parametrize(
    "text", ["0 9 * * MON-FRI", "0 0 9 * * *", "0 0 9 * * * 2030", "@daily", "@hourly # often"]
)
def test_expressions_that_the_server_knows(text: str) -> None:
    assert Times(cron=(text,)).cron == (text,)


@pytest.mark.parametrize("name", ["", "Report", "a b", "-a", "a-", "a--b", "a" * 61, "../a"])
def test_a_name_that_begins_no_run_is_refused(name: str) -> None:
    fields = {"name": name, "kind": "agent", "task": {}, "times": {"every_s": 60}}
    with pytest.raises(ValidationError, match="name"):
        SchedulePlan.model_validate(fields)


MONTHS = {
    "in UTC": (datetime(2026, 2, 28, 23, 59, tzinfo=UTC), "UTC", (2, 1, 0), (3, 1, 0)),
    "a zone ahead is in the next month": (
        datetime(2026, 2, 28, 23, 30, tzinfo=UTC), "Europe/Berlin", (2, 28, 23), (3, 31, 22),
    ),
    "a zone behind is in the last one": (
        datetime(2026, 3, 1, 2, 0, tzinfo=UTC), "America/New_York", (2, 1, 5), (3, 1, 5),
    ),
    "the clocks change in it": (
        datetime(2026, 10, 25, 1, 30, tzinfo=UTC), "Europe/Berlin", (9, 30, 22), (10, 31, 23),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("moment", "zone", "began", "ends"), MONTHS.values(), ids=MONTHS.keys())
def test_a_month_is_that_of_its_zone(
    moment: datetime, zone: str, began: tuple[int, int, int], ends: tuple[int, int, int]
) -> None:
    found = month_of(moment, ZoneInfo(zone))
    assert [(one.month, one.day, one.hour) for one in found] == [began, ends]


@given(
    st.integers(946_684_800, 3_786_912_000).map(lambda at: datetime.fromtimestamp(at, UTC)),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Africa/Cairo"]),
)
def test_every_moment_is_in_its_month_and_months_leave_no_gap(moment: datetime, zone: str) -> None:
    began, ends = month_of(moment, ZoneInfo(zone))
    assert began <= moment < ends
    assert month_of(ends, ZoneInfo(zone))[0] == ends
