"""Whose turn it is: every step and child of a run carries its priority and fairness key."""

import hashlib
import uuid

import pytest
from installation import Installation
from temporalio.client import Client

from perdure.domain.run.fairness import FAIRNESS_BYTES, fairness_key
from perdure.domain.run.spec import Metadata
from perdure.domain.schedules.plan import SchedulePlan, Times
from perdure.domain.specs import RUN_SPEC


async def _turns(site: Installation, run: str) -> list[tuple[int, str]]:
    """Priority and fairness key of the execution and of each of its steps, as the server has it."""
    history = await site.client.get_workflow_handle(run).fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes.priority
    own = (started.priority_key, started.fairness_key)
    steps = [
        event.activity_task_scheduled_event_attributes.priority
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert steps
    return [
        own,
        # A step that names nothing inherits.
        *((one.priority_key or own[0], one.fairness_key or own[1]) for one in steps),
    ]


@pytest.mark.parametrize(
    ("task", "turn"),
    [
        ({"metadata": {"tenant": "acme"}, "priority": 2}, (2, "acme")),
        ({"metadata": {"label": "nightly"}}, (0, "nightly")),
        ({"metadata": {"tenant": "acme", "label": "nightly"}}, (0, "acme")),
        ({"priority": 5}, (5, "")),
        ({}, (0, "")),
    ],
    ids=["both", "label", "tenant wins", "priority", "neither"],
)
async def test_a_run_and_its_steps_have_one_turn(
    site: Installation, task: dict[str, object], turn: tuple[int, str]
) -> None:
    spec = {"kind": "agent", "goal": "look", "learn": False, **task}
    run = await site.start(spec, {"replies": [{"text": "done"}]})
    assert (await site.gateway.result(run)).output == "done"
    assert set(await _turns(site, run)) == {turn}


async def test_what_a_plain_client_starts_carries_its_turn_by_step(site: Installation) -> None:
    plain = await Client.connect(site.address)
    model = await site.script({"replies": [{"text": "done"}]})
    task = {
        "goal": "look",
        "models": {"executor": model},
        "metadata": {"tenant": "acme"},
        "priority": 4,
    }
    run = f"plain-{uuid.uuid4().hex[:8]}"
    handle = await plain.start_workflow(
        "AgentLoop", task, id=run, task_queue=site.settings.task_queue
    )
    await handle.result()
    own, *steps = await _turns(site, run)
    assert own == (0, "")
    assert set(steps) == {(4, "acme")}


async def test_what_a_schedule_starts_has_the_turn_of_its_task(site: Installation) -> None:
    """Its workflow tasks too: a start by hand has the same."""
    model = await site.script({"replies": [{"text": "done"}]})
    task = RUN_SPEC.validate_python(
        {
            "kind": "agent",
            "goal": "look",
            "learn": False,
            "models": {"executor": model},
            "metadata": {"label": "nightly", "tenant": "acme"},
            "priority": 4,
        }
    )
    plan = SchedulePlan(
        name=f"turn-{uuid.uuid4().hex[:6]}",
        kind="agent",
        task=task.model_dump(mode="json", by_alias=True),
        times=Times(every_s=3_600),
    )
    schedules = site.gateway.schedules(site.parts.stores.schedules())
    await schedules.create(plan)
    started = await schedules.trigger(plan.name)
    assert started.run is not None
    assert (await site.gateway.result(started.run)).output == "done"
    handle = site.client.get_workflow_handle(started.run)
    first = (await handle.describe()).raw_description.workflow_execution_info.first_run_id
    history = await site.client.get_workflow_handle(started.run, run_id=first).fetch_history()
    opened = history.events[0].workflow_execution_started_event_attributes.priority
    assert (opened.priority_key, opened.fairness_key) == (4, "acme")
    assert set(await _turns(site, started.run)) == {(4, "acme")}


def test_a_key_is_never_longer_than_the_server_takes() -> None:
    long = "ü" * FAIRNESS_BYTES
    assert fairness_key(long) == hashlib.sha256(long.encode()).hexdigest()
    assert len(fairness_key(long) or "") == FAIRNESS_BYTES
    assert fairness_key("a" * FAIRNESS_BYTES) == "a" * FAIRNESS_BYTES
    assert fairness_key("") is None
    assert fairness_key(None) is None


def test_a_tenant_that_was_any_fact_is_read_as_text() -> None:
    assert Metadata.model_validate({"tenant": 7}).payer == "7"
    assert "tenant" not in Metadata(label="nightly").model_dump()
