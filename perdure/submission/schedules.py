"""Turns a task and options into the plan of a schedule."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue, ValidationError

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import problems_of
from perdure.domain.schedules.plan import SchedulePlan
from perdure.domain.specs import Spec


def schedule_plan(spec: Spec, options: Mapping[str, JsonValue]) -> SchedulePlan:
    """The plan of a schedule.

    Args:
        spec: of its runs; the files of the task are in the blob store already.
        options: the other fields of `SchedulePlan`.

    Raises:
        InvalidInput: options are wrong; the message lists all problems.
    """
    task: dict[str, JsonValue] = spec.model_dump(mode="json", by_alias=True)
    try:
        return SchedulePlan.model_validate({**options, "kind": spec.kind, "task": task})
    except ValidationError as error:
        found = problems_of(error, dict(options), names=SchedulePlan.model_fields)
        told = "\n".join(f"  {problem}" for problem in found)
        raise InvalidInput(
            f"The schedule cannot be made:\n{told}",
            cure="Correct these; see docs/schedules.md.",
            problems=[(problem.path, f"{problem}") for problem in found],
        ) from None


def file_digest(path: Path) -> str:
    """The digest of a task file, by which changes are noticed; empty if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
