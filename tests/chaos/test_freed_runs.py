"""A run whose worker was killed in a step goes on as soon as the step does."""

from collections.abc import Sequence
from pathlib import Path

from ground import ground
from invariants import executions
from provider import Play
from temporalio.api.enums.v1 import EventType, TaskQueueKind
from temporalio.api.history.v1 import HistoryEvent
from temporalio.testing import WorkflowEnvironment

STICKY_S = 20.0  # a wait that the run would pass if it were not freed


def _address(server: WorkflowEnvironment) -> str:
    return server.client.service_client.config.target_host


async def test_a_run_does_not_wait_for_the_worker_that_was_killed(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    async with ground(tmp_path, _address(server), sticky_s=STICKY_S) as made:
        made.provider.choose = lambda _: [Play(gate="never"), Play(text="done")]
        async with made.process() as lost:
            run = await made.start()
            await made.billed(1)
            # One that is there already: the server itself notices after 10 s that the lost one is.
            async with made.process():
                await lost.kill()
                result = await made.check(run, kills=1)
        (history,) = await executions(made.site, run)
    assert result.output == "done"
    assert not _of_type(history.events, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT)


async def test_a_step_that_failed_leaves_the_run_in_its_cache(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    async with ground(tmp_path, _address(server)) as made:
        made.provider.choose = lambda _: [Play(status=529), Play(text="done")]
        async with made.site.worker():
            run = await made.start()
            await made.check(run)
        (history,) = await executions(made.site, run)
    scheduled = _of_type(history.events, EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED)
    attempts = [
        event.activity_task_started_event_attributes.attempt
        for event in _of_type(history.events, EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED)
    ]
    assert max(attempts) == 2
    kinds = [one.workflow_task_scheduled_event_attributes.task_queue.kind for one in scheduled]
    assert set(kinds[1:]) == {TaskQueueKind.TASK_QUEUE_KIND_STICKY}


def _of_type(
    events: Sequence[HistoryEvent], wanted: "EventType.ValueType"
) -> Sequence[HistoryEvent]:
    return [event for event in events if event.event_type == wanted]
