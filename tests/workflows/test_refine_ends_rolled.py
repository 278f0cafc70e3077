"""A refine run that continues as new inside a draft, and must end then, keeps its text."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from holding import Holding
from installation import Installation, installation
from refining import draft, spec
from steered import HELD_LIST, LIST
from temporalio.testing import WorkflowEnvironment

from perdure.domain.run.messages import Stop
from perdure.domain.run.spec import Timing

FOUND = "what I found so far: oak elm ash"


@pytest.fixture
async def rolling(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose runs continue as new between any two steps."""
    address = server.client.service_client.config.target_host
    async with installation(tmp_path, address, timing=Timing(roll_events=1)) as site, site.worker():
        yield site


@pytest.mark.long
@pytest.mark.parametrize(
    ("closing", "output"),
    [
        pytest.param({"text": draft(0.7)}, draft(0.7), id="the closing text"),
        pytest.param({"error": {"status": 400}}, FOUND, id="what was said beside its calls"),
    ],
)
async def test_a_stop_still_brings(
    rolling: Installation, holding: Holding, closing: object, output: str
) -> None:
    task = {**spec(), "tools": {"access": "readonly"}}
    replies = [LIST, {**HELD_LIST, "text": FOUND}, closing]
    run = await rolling.start(task, {"replies": replies})
    await holding.begun()
    await rolling.gateway.verb(run, Stop(by="me"))
    holding.release()
    result = await rolling.gateway.result(run)
    described = await rolling.handle(run).describe()
    assert described.run_id != described.raw_description.workflow_execution_info.first_run_id
    assert (result.outcome, result.output) == ("stopped", output)
