"""Schedules of a small task, and what starting one by hand gives."""

import uuid

from holding import HELD
from installation import Installation

from perdure.domain.run.result import RunResult
from perdure.domain.schedules.plan import SchedulePlan, Times
from perdure.domain.specs import RUN_SPEC
from perdure.gateway.schedules import Schedules

USAGE = {"input_tokens": 1_000, "output_tokens": 1_000}
HELD_TEXT = {"text": "An apple.", "usage": USAGE, "delay_s": HELD}
HOURLY = Times(every_s=3_600)


def schedules(site: Installation) -> Schedules:
    return site.gateway.schedules(site.parts.stores.schedules())


async def plan(site: Installation, **changes: object) -> SchedulePlan:
    """A schedule of an agent that answers once."""
    model = await site.script({"replies": [{"text": "An apple.", "usage": USAGE}]})
    spec = RUN_SPEC.validate_python(
        {"kind": "agent", "goal": "Name a fruit.", "models": {"executor": model}, "learn": False}
    )
    fields: dict[str, object] = {
        "name": f"fruit-{uuid.uuid4().hex[:6]}",
        "kind": "agent",
        "task": spec.model_dump(mode="json", by_alias=True),
        "times": HOURLY,
    }
    return SchedulePlan.model_validate(fields | changes)


async def triggered(site: Installation, name: str) -> RunResult:
    """The result of a start by hand."""
    found = await schedules(site).trigger(name)
    assert found.run is not None, found
    return await site.gateway.result(found.run)
