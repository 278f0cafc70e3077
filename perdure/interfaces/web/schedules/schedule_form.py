"""The form of a new schedule: its fields and the request body."""

from collections.abc import Mapping

from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.strict_yaml import parse

HOURS_S = 3_600


class ScheduleForm(FrozenModel):
    """The fields of the form as a person filled them in.

    Args:
        name: the schedule's name.
        task: the fields of a task file, as YAML.
        cron: when, as five fields.
        every_hours: how often, instead of `cron`.
        time_zone: of the times and of the months.
        overlap: what happens to a start while a run is open.
        cost_usd: the limit of a month in USD.
        tokens: the limit of a month in tokens.
    """

    name: str = ""
    task: str = ""
    cron: str = ""
    every_hours: str = ""
    time_zone: str = "UTC"
    overlap: str = "skip"
    cost_usd: str = ""
    tokens: str = ""

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> "ScheduleForm":
        known = cls.model_fields.keys() & fields.keys()
        return cls(**{name: fields[name].strip() for name in known})

    def body(self) -> dict[str, JsonValue]:
        """The request body; the API checks its values.

        Raises:
            ApiProblem: the task is not YAML, or has no fields.
        """
        times: dict[str, JsonValue] = {"time_zone": self.time_zone}
        if self.cron:
            times["cron"] = [self.cron]
        if self.every_hours:
            times["every_s"] = _seconds(self.every_hours)
        month: dict[str, JsonValue] = {}
        if self.cost_usd:
            month["cost_usd"] = self.cost_usd
        if self.tokens:
            month["tokens"] = self.tokens
        return {
            "name": self.name,
            "task": self._task(),
            "times": times,
            "overlap": self.overlap,
            "month": month,
        }

    def _task(self) -> dict[str, JsonValue]:
        try:
            found = parse(self.task, named="this")
        except InvalidInput as error:
            raise _wrong(error.message) from None
        if not isinstance(found, dict):
            raise _wrong("no fields of a task, such as `{kind: agent, goal: Write the news.}`")
        return found


def _seconds(hours: str) -> JsonValue:
    try:
        return float(hours) * HOURS_S
    except ValueError:
        # The API refuses it, and says what is allowed.
        return hours


def _wrong(found: str) -> ApiProblem:
    return ApiProblem(422, "invalid_input", "The form is not valid.", "", (f"task: {found}",))
