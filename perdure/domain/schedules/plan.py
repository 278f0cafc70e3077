"""A schedule as a person describes it: a task, when it starts, and what a month of it may cost."""

import re
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import Field, JsonValue, field_validator, model_validator

from perdure.domain.budget.accounting import Count, Money
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.names import LoopKind
from perdure.domain.foundation.problems import nearest_name

# Without `terminate`: a cancelled loop keeps its best result; a terminated one loses it, and its
# row says that it still runs.
Overlap = Literal["skip", "buffer_one", "buffer_all", "cancel_other", "allow_all"]
NAME = r"^[a-z0-9]+(-[a-z0-9]+)*$"
# The server adds the moment of a start to it, for the id of the run.
LONGEST_NAME = 60
MOST_TIMES = 20
MINUTE_S, HOUR_S, YEAR_S = 60, 3_600, 366 * 86_400
# What follows them is another syntax, which has no zone or has one of its own.
_ZONE_IN_CRON = re.compile(r"\s*(CRON_)?TZ\s*=", re.IGNORECASE)

_NAMED_TIMES = frozenset(
    {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
)

CronText = Annotated[str, Field(min_length=1, max_length=200)]
Interval = Annotated[float, Field(ge=MINUTE_S, le=YEAR_S, allow_inf_nan=False)]
UpToAYear = Annotated[float, Field(ge=0, le=YEAR_S, allow_inf_nan=False)]


class Times(FrozenModel):
    """When a schedule starts its task: at the times of cron expressions, or every so often.

    `time_zone` is that of the cron expressions and of the months of the budget. An interval counts
    from 1970 in UTC, plus `offset_s`: every 24 h with an offset of 6 h is at 06:00 UTC.
    """

    cron: tuple[CronText, ...] = Field(default=(), max_length=MOST_TIMES)
    every_s: Interval | None = None
    offset_s: UpToAYear = 0
    jitter_s: UpToAYear = 0
    time_zone: str = "UTC"

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        # `ZoneInfo` looks for a file of that name, which may be too long for one, or a folder.
        except (ZoneInfoNotFoundError, ValueError, OSError):
            near = nearest_name(value, sorted(available_timezones()))
            hint = f"; did you mean {near}?" if near else ""
            raise ValueError(f"there is no time zone {value[:60]!r}{hint}") from None
        return value

    @field_validator("cron")
    @classmethod
    def _five_fields(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            if _ZONE_IN_CRON.match(text):
                raise ValueError(f"the zone of {text[:60]!r} goes into time_zone")
            if text.lstrip().startswith("@every"):
                raise ValueError(f"{text[:60]!r} is an interval; give every_s instead")
            fields = text.partition("#")[0].split()
            named = " ".join(fields) in _NAMED_TIMES
            # Two more are for seconds and years; what stands in them, the server checks.
            if not named and not 5 <= len(fields) <= 7:
                raise ValueError(
                    f"{text[:60]!r} has {len(fields)} fields instead of 5: minute, hour, day, "
                    'month, weekday, such as "0 9 * * MON-FRI"'
                )
        return value

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.cron) == (self.every_s is not None):
            raise ValueError("give either cron expressions or an interval (every_s)")
        if self.every_s is not None and self.offset_s >= self.every_s:
            raise ValueError(f"offset_s ({self.offset_s:g}) must be below every_s")
        if self.cron and self.offset_s:
            raise ValueError("offset_s goes with every_s")
        return self

    @property
    def zone(self) -> tzinfo:
        return ZoneInfo(self.time_zone)


class MonthlyBudget(FrozenModel):
    """What all runs of a schedule may spend in a calendar month of its zone; None: no limit."""

    cost_usd: Money | None = None
    tokens: Count | None = None

    @property
    def unlimited(self) -> bool:
        """Whether a month has no limit at all."""
        return not self.cost_usd and not self.tokens


class SchedulePlan(FrozenModel):
    """A schedule: its task as JSON, and how it is started.

    Args:
        name: names the schedule, and begins the ids of its runs.
        task: the fields of the task, whole: files that it named are blobs by now.
        overlap: what becomes of a start while the run before is open.
        catch_up_s: how late a start may be made up for, after the server was away.
        month: what all its runs may spend in a month.
        source: the task file or ready-made task that it was made from, to be shown.
        source_digest: of that file as it was read; empty for a ready-made task.
    """

    name: Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME)]
    kind: LoopKind
    task: dict[str, JsonValue]
    times: Times
    overlap: Overlap = "skip"
    # Ten seconds are the shortest that the server goes by.
    catch_up_s: Annotated[float, Field(ge=10, le=YEAR_S, allow_inf_nan=False)] = HOUR_S
    month: MonthlyBudget = MonthlyBudget()
    source: str = ""
    source_digest: str = ""

    @property
    def goal(self) -> str:
        """What its runs are for."""
        return str(self.task.get("goal", ""))


def month_of(moment: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """The calendar month of a moment in a time zone: when it begins, and when the next one does."""
    local = moment.astimezone(zone)
    # `fold=0`: a midnight that comes twice, as clocks are set back, begins the month the first
    # time.
    first = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0, fold=0)
    year, month = (first.year + 1, 1) if first.month == 12 else (first.year, first.month + 1)
    return first.astimezone(UTC), first.replace(year=year, month=month).astimezone(UTC)
