"""Tools that run once, paused or reset at the server while they run (`temporal activity pause`)."""

import probe_tools
import pytest
from agent_runs import call, calls, results, script, task
from installation import Installation
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import PauseActivityRequest, ResetActivityRequest
from temporalio.client import Client
from waiting import eventually


async def _pause(client: Client, run: str, step: str) -> None:
    execution = WorkflowExecution(workflow_id=run)
    asked = PauseActivityRequest(namespace=client.namespace, execution=execution, id=step)
    await client.workflow_service.pause_activity(asked)


async def _reset(client: Client, run: str, step: str) -> None:
    execution = WorkflowExecution(workflow_id=run)
    asked = ResetActivityRequest(namespace=client.namespace, execution=execution, id=step)
    await client.workflow_service.reset_activity(asked)


@pytest.mark.parametrize("interfere", [_pause, _reset])
async def test_the_effect_of_a_tool_that_runs_once_is_uncertain(
    probe: Installation, interfere
) -> None:
    asked = calls(call("probe.once", text="mail"))
    run = await probe.start(task(tools={"access": "full"}), script(asked, {"text": "Done."}))
    await eventually(lambda: probe_tools.CALLS.get(run))
    described = await probe.handle(run).describe()
    (step,) = described.raw_description.pending_activities
    await interfere(probe.client, run, step.activity_id)
    result = await probe.gateway.result(run)
    (block,) = await results(probe, result)
    assert (block.outcome, result.output) == ("effect_uncertain", "Done.")
    assert "look before you call it again" in block.text
    assert probe_tools.CALLS[run] == ["mail"]
