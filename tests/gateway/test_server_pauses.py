"""What somebody paused with Temporal's own command line is open, and says what it waits for."""

from typing import Literal

import pytest
from temporalio.api.common.v1 import ActivityType, WorkflowExecution
from temporalio.api.enums.v1 import WorkflowExecutionStatus as ServerStatus
from temporalio.api.workflow.v1 import (
    PendingActivityInfo,
    WorkflowExecutionExtendedInfo,
    WorkflowExecutionInfo,
    WorkflowExecutionPauseInfo,
)
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionResponse,
    PauseWorkflowExecutionRequest,
    UnpauseWorkflowExecutionRequest,
)
from temporalio.client import WorkflowExecutionStatus
from waiting import eventually

from perdure.domain.foundation.errors import NoReadyWorker
from perdure.domain.run.messages import Pause, Stop
from perdure.gateway.diagnostics import pause_problem
from perdure.gateway.dispatch import unfetched
from perdure.gateway.server_pauses import PAUSED_THERE, paused_types, unpause_run
from perdure.gateway.types import RunFilter
from tests.gateway.test_diagnostics import NOW
from tests.gateway.tiny import Site, spec

Manual = PendingActivityInfo.PauseInfo.Manual
Rule = PendingActivityInfo.PauseInfo.Rule


def step(name: str, cause: Manual | Rule | None) -> PendingActivityInfo:
    info = PendingActivityInfo(
        activity_id=name, activity_type=ActivityType(name="call_model"), paused=cause is not None
    )
    if isinstance(cause, Manual):
        info.pause_info.manual.CopyFrom(cause)
    elif cause is not None:
        info.pause_info.rule.CopyFrom(cause)
    return info


def described(
    *steps: PendingActivityInfo, status: ServerStatus.ValueType, by: str = "", why: str = ""
) -> DescribeWorkflowExecutionResponse:
    return DescribeWorkflowExecutionResponse(
        workflow_execution_info=WorkflowExecutionInfo(
            execution=WorkflowExecution(workflow_id="r1"), status=status
        ),
        workflow_extended_info=WorkflowExecutionExtendedInfo(
            pause_info=WorkflowExecutionPauseInfo(identity=by, reason=why)
        ),
        pending_activities=steps,
    )


RUNNING = ServerStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
PAUSED = ServerStatus.WORKFLOW_EXECUTION_STATUS_PAUSED
UNPAUSE = "`temporal activity unpause --workflow-id r1 --activity-id s2` lets it go on."


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param(described(step("s1", None), status=RUNNING), None, id="nothing is paused"),
        pytest.param(
            described(status=PAUSED, by="ops", why="hold  it"),
            "paused at the Temporal server by ops (hold it): no step begins, and nothing that is "
            "said to the run is heard. `temporal workflow unpause --workflow-id r1` lets it go on.",
            id="the run",
        ),
        pytest.param(
            described(step("s1", None), step("s2", Manual(identity="ops")), status=RUNNING),
            f"paused at the Temporal server by ops: the step call_model (s2). {UNPAUSE}",
            id="a step",
        ),
        pytest.param(
            described(step("s2", Rule(reason="costs")), step("s3", Manual()), status=RUNNING),
            f"paused at the Temporal server (costs): the step call_model (s2) (and 1 more). "
            f"{UNPAUSE}",
            id="steps by a rule",
        ),
    ],
)
def test_a_pause_at_the_server_is_told_with_its_cure(
    given: DescribeWorkflowExecutionResponse, told: str | None
) -> None:
    found = pause_problem(given)
    assert (found and found.text) == told
    assert unfetched(given, now=NOW) is None


@pytest.mark.parametrize(
    ("listed", "types"),
    [(["property:activityType=call_model", "rule:costs"], ("call_model",)), ([], ())],
)
def test_a_list_knows_which_steps_are_paused(listed: list[str], types: tuple[str, ...]) -> None:
    assert paused_types(listed) == types


def test_a_paused_execution_is_open_and_other_numbers_are_refused() -> None:
    assert WorkflowExecutionStatus(PAUSED) is WorkflowExecutionStatus.RUNNING
    with pytest.raises(ValueError, match="99 is not a valid"):
        WorkflowExecutionStatus(99)


async def pause_there(site: Site, run: str) -> None:
    """Pause an execution as `temporal workflow pause` does."""
    await site.client.workflow_service.pause_workflow_execution(
        PauseWorkflowExecutionRequest(
            namespace=site.client.namespace, workflow_id=run, identity="ops", reason="hold"
        )
    )


@pytest.mark.parametrize("wanted", [None, "running"])
async def test_a_run_that_was_paused_at_the_server_is_among_the_open_ones(
    site: Site, wanted: Literal["running"] | None
) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    await pause_there(site, run)

    async def listed() -> bool:
        found = (await site.gateway.list(RunFilter(status=wanted))).runs
        told = {one.id: one.trouble for one in found}
        return told.get(run) == f"{PAUSED_THERE}. {unpause_run(run)}"

    assert await eventually(listed)
    assert (await site.gateway.failing(limit=10)).open == 1
    report = await site.gateway.verb_all(Pause())
    assert report.taken == ()
    assert f"{PAUSED_THERE} by ops (hold)" in report.refused[run]


async def test_a_question_of_a_run_that_was_paused_at_the_server_is_not_hidden(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec("ask"))

    async def asks() -> bool:
        return [one.run for one in (await site.gateway.gates()).gates] == [run]

    assert await eventually(asks)
    await pause_there(site, run)

    # The server's list learns of the pause a moment later; until then the run only keeps silent.
    async def says_why() -> bool:
        found = await site.gateway.gates()
        return found.unread == (run,) and run in found.reasons

    assert await eventually(says_why)
    found = await site.gateway.gates()
    assert found.reasons[run] == f"The run is {PAUSED_THERE}. {unpause_run(run)}"


async def test_a_run_that_was_paused_at_the_server_hides_no_other_and_says_why_it_is_silent(
    site: Site,
) -> None:
    await site.work()
    label = f"l{site.records.name}"
    run, other = [await site.gateway.start(spec(metadata={"label": label})) for _ in range(2)]
    await pause_there(site, run)

    async def both() -> bool:
        found = (await site.gateway.list(RunFilter(label=label))).runs
        return {one.id for one in found} == {run, other}

    assert await eventually(both)
    told = await site.gateway.status(run)
    assert told.trouble is not None
    assert told.trouble.startswith("paused at the Temporal server by ops (hold)")
    assert "Start one" not in told.dispatch
    with pytest.raises(NoReadyWorker, match="paused at the Temporal server by ops") as silent:
        await site.gateway.verb(run, Pause())
    assert "temporal workflow unpause" in silent.value.cure

    await site.client.workflow_service.unpause_workflow_execution(
        UnpauseWorkflowExecutionRequest(
            namespace=site.client.namespace, workflow_id=run, identity="ops", reason="go"
        )
    )

    async def hears() -> bool:
        return (await site.gateway.status(run)).trouble is None

    assert await eventually(hears)
    for one in (run, other):
        await site.gateway.verb(one, Stop())
