"""Whether somebody took the work of a run: pending, dispatched, or an error with its cure."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.api.enums.v1 import (
    PendingActivityState,
    PendingWorkflowTaskState,
    VersioningBehavior,
)
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionResponse,
    PollWorkflowTaskQueueRequest,
)
from waiting import eventually

from perdure.domain.foundation.names import loops_queue, tools_queue
from perdure.gateway.dispatch import Unfetched, dispatch_of, found_and_cure, unfetched
from perdure.gateway.types import InstallationInfo, worker_command
from perdure.gateway.worker_probe import QueueLimit
from tests.gateway.tiny import Site, spec

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SCHEDULED = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
STARTED = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


def described(*steps: tuple[int, int, float], task: float | None = None):
    """What the server says: steps as (state, attempt, age), and the age of a lying task."""
    made = DescribeWorkflowExecutionResponse()
    made.execution_config.task_queue.name = "loops"
    for state, attempt, age in steps:
        step = made.pending_activities.add(state=state, attempt=attempt)
        step.activity_type.name = "open_workspace"
        step.activity_options.task_queue.name = "tools"
        step.scheduled_time.FromDatetime(NOW - timedelta(seconds=age))
    if task is not None:
        lying = made.pending_workflow_task
        lying.state = PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
        lying.attempt = 1
        lying.original_scheduled_time.FromDatetime(NOW - timedelta(seconds=task))
    return made


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (described(), None),
        (described((STARTED, 1, 60)), None),
        (described((SCHEDULED, 2, 60)), ("tools", "the step open_workspace", 60)),
        (described((SCHEDULED, 1, 7)), ("tools", "the step open_workspace", 7)),
        (described(task=3), ("loops", "the run itself", 3)),
        (described((SCHEDULED, 1, 7), task=9), ("loops", "the run itself", 9)),
    ],
    ids=["nothing", "in work", "tried again", "a step", "the run", "the oldest counts"],
)
def test_what_nobody_has_taken(given, expected):
    found = unfetched(given, now=NOW)
    assert (None if found is None else (found.queue, found.what, found.seconds)) == expected


def test_a_task_that_came_back_lies_since_it_came_back():
    given = described(task=60)
    lying = given.pending_workflow_task
    lying.attempt = 2
    lying.scheduled_time.FromDatetime(NOW - timedelta(seconds=9))
    found = unfetched(given, now=NOW)
    assert found is not None
    assert (found.what, found.seconds) == ("the run itself", 9)


@pytest.mark.parametrize("build", ["", "0.1.0-aaa"])
@pytest.mark.parametrize(("pauses", "since"), [(False, 40), (True, None)], ids=["lies", "pauses"])
def test_a_step_that_is_tried_again_lies_since_its_last_attempt(pauses, since, build):
    given = described((SCHEDULED, 2, 60))
    if build:
        info = given.workflow_execution_info.versioning_info
        info.behavior = VersioningBehavior.VERSIONING_BEHAVIOR_PINNED
        info.deployment_version.build_id = build
        info.deployment_version.deployment_name = "rolled"
    (step,) = given.pending_activities
    step.last_attempt_complete_time.FromDatetime(NOW - timedelta(seconds=40))
    if pauses:
        step.next_attempt_schedule_time.FromDatetime(NOW + timedelta(seconds=5))
    found = unfetched(given, now=NOW)
    expected = None if since is None else (since, build, "rolled" if build else "")
    seen = None if found is None else (found.seconds, found.build, found.deployment)
    assert seen == expected


@pytest.mark.parametrize(
    ("seconds", "events", "expected"),
    [(None, 2, "pending"), (None, 3, "dispatched"), (4.9, 2, "pending"), (4.9, 30, "dispatched")],
)
def test_what_is_young_is_no_error(seconds, events, expected):
    lying = None if seconds is None else Unfetched(queue="q", what="x", seconds=seconds)
    told = dispatch_of(lying, history_length=events, folders={}, worker_command=worker_command)
    assert told == expected


def test_an_error_names_queue_folder_and_command():
    lying = Unfetched(queue="tools", what="the step open_workspace", seconds=12)
    told = dispatch_of(
        lying, history_length=9, folders={"tools": "/srv/shop"}, worker_command=worker_command
    )
    assert told == (
        "no worker has taken the step open_workspace from the queue tools for the folder /srv/shop "
        "for 12 s: none is there, or all are busy. "
        "Start one with `perdure worker` on the host that has the folder /srv/shop."
    )


def test_an_error_names_the_limit_of_a_queue_with_the_command_that_takes_it_away():
    lying = Unfetched(queue="models", what="the step call_model", seconds=12)
    limit = QueueLimit(queue="models", per_second=0.5, by="ops", reason="")
    told = dispatch_of(
        lying, history_length=9, folders={}, worker_command=worker_command, limit=limit
    )
    assert told == (
        "no worker has taken the step call_model from the queue models for 12 s: none is there, or "
        "all are busy; and the queue models is limited to 0.5 tasks a second at the Temporal "
        "server by ops. `temporal task-queue config set --task-queue models --task-queue-type "
        "activity --queue-rps-limit default` takes the limit away."
    )


@pytest.mark.parametrize("build", ["", "0.1.0-aaa"])
@pytest.mark.parametrize(
    "limit", [None, QueueLimit(queue="q", per_second=0.5, by="ops", reason="")]
)
def test_each_error_can_be_told_apart_from_its_cure(build, limit):
    lying = Unfetched(queue="q", what="the run itself", seconds=12, build=build, deployment="d")
    told = dispatch_of(
        lying, history_length=9, folders={}, worker_command=worker_command, limit=limit
    )
    parts = found_and_cure(told)
    assert parts is not None
    assert " ".join(parts) == told


def test_of_a_pinned_run_the_error_names_its_deployment_and_what_moves_it():
    """Whatever deployment this command knows: a plain new worker would not take the run."""
    lying = Unfetched(
        queue="loops", what="the run itself", seconds=12, build="0.1.0-aaa", deployment="rolled"
    )
    told = dispatch_of(lying, history_length=9, folders={}, worker_command=worker_command)
    assert told.endswith(
        "The run is pinned to the build 0.1.0-aaa of the deployment rolled. Start one with "
        "PERDURE_DEPLOYMENT=rolled and that version, or let the run go on in the current build: "
        "`PERDURE_DEPLOYMENT=rolled perdure deploy drain 0.1.0-aaa --move`."
    )


@pytest.mark.parametrize(
    ("deployment", "cure"),
    [
        (None, "Start one with `perdure worker`."),
        (
            "ours",
            "Start one with `perdure worker`; if workers are there, none of their builds may be "
            "current: `perdure deploy status`.",
        ),
    ],
)
def test_with_a_deployment_workers_may_be_there_and_begin_nothing(deployment, cure):
    facts = InstallationInfo(address="h", deployment=deployment)
    lying = Unfetched(queue="loops", what="the run itself", seconds=12)
    told = dispatch_of(lying, history_length=2, folders={}, worker_command=facts.starting)
    assert told.endswith(f"none is there, or all are busy. {cure}")


async def test_a_run_at_work_is_dispatched(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())

    async def taken() -> str | None:
        told = (await site.gateway.status(run)).dispatch
        return told if told == "dispatched" else None

    assert await eventually(taken) == "dispatched"


async def test_a_run_that_nobody_takes_says_where_it_lies(site: Site, monkeypatch) -> None:
    monkeypatch.setattr("perdure.gateway.dispatch.PATIENCE_S", 0)
    queue = tools_queue(await site.records.installation(), await site.records.workspace("/srv/x"))
    await site.client.start_workflow("AgentLoop", id="lost", task_queue=queue)
    told = (await site.impatient.status("lost")).dispatch
    assert f"no worker has taken the run itself from the queue {queue}" in told
    assert told.endswith("Start one with `perdure worker` on the host that has the folder /srv/x.")
    await site.client.get_workflow_handle("lost").terminate()


async def test_a_run_whose_worker_died_waits_for_another_and_its_code_is_not_blamed(
    site: Site, monkeypatch
) -> None:
    monkeypatch.setattr("perdure.gateway.dispatch.PATIENCE_S", 0)
    queue = loops_queue(await site.records.installation())
    run = await site.client.start_workflow(
        "AgentLoop", id="orphan", task_queue=queue, task_timeout=timedelta(seconds=1)
    )
    # A worker that takes the task and is never heard of again.
    await site.client.workflow_service.poll_workflow_task_queue(
        PollWorkflowTaskQueueRequest(
            namespace=site.client.namespace, task_queue=TaskQueue(name=queue), identity="dies"
        )
    )
    told: list[str] = []

    async def follow() -> None:
        async for _ in site.impatient.events("orphan", on_trouble=told.append):
            pass

    following = asyncio.create_task(follow())

    async def lies_again() -> str | None:
        status = await site.impatient.status("orphan")
        assert status.trouble is None
        return status.dispatch if status.dispatch.startswith("no worker has taken") else None

    assert f"the run itself from the queue {queue}" in (await eventually(lies_again) or "")
    await eventually(lambda: bool(told))
    await run.terminate()
    await following
    assert len(told) == 1
    assert told[0].startswith("no worker has taken the run itself")
