"""Schedules on a real server: what the clock starts, what a month pays for, what is refused."""

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from installation import Installation
from waiting import eventually

from perdure.domain.foundation.errors import Conflict, InvalidInput, NotFound
from perdure.domain.foundation.names import schedule_id
from perdure.domain.run.result import RunResult
from perdure.domain.schedules.plan import MonthlyBudget, SchedulePlan, Times
from perdure.domain.schedules.status import Triggered
from perdure.domain.specs import RUN_SPEC
from perdure.gateway.schedules import Schedules

USAGE = {"input_tokens": 1_000, "output_tokens": 1_000}
HOURLY = Times(every_s=3_600)


def schedules(site: Installation) -> Schedules:
    return site.gateway.schedules(site.parts.stores.schedules())


async def plan(
    site: Installation, *, texts: tuple[str, ...] = ("An apple.",), **changes: object
) -> SchedulePlan:
    """A schedule of an agent that answers once, at 0.01 USD a thousand tokens."""
    model = await site.script(
        {"replies": [{"text": text, "usage": USAGE} for text in texts] }
    )
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
    found = await schedules(site).trigger(name)
    assert found.run is not None, found
    return await site.gateway.result(found.run)


async def test_a_schedule_starts_its_task_as_a_run(site: Installation) -> None:
    wanted = await plan(site)
    status = await schedules(site).create(wanted)
    assert (status.state, status.plan, status.started) == ("active", wanted, 0)
    assert status.next_at == tuple(sorted(status.next_at))
    assert len(status.next_at) == 5
    result = await triggered(site, wanted.name)
    assert (result.outcome, result.output) == ("accepted", "An apple.")
    assert result.id.startswith(f"{wanted.name}-20")
    stands = await schedules(site).status(wanted.name)
    assert [start.run for start in stands.starts] == [result.id]
    assert (stands.started, stands.month.tokens, stands.month.holding) == (1, 2_000, 0)
