"""A notice outlives the worker that was to send it, and what no channel took is sent again."""

import json
from pathlib import Path
from types import SimpleNamespace

import agent_runs
import pytest
from installation import installation
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.messages import Answer
from perdure.interfaces.notices import send_again
from tests.adapters.test_notifiers import Receiver, receiver

__all__ = ["receiver"]
ASKS = agent_runs.calls(agent_runs.call("human.ask", question="Tea?", choices=["yes", "no"]))


@pytest.mark.slow
async def test_a_notice_outlives_its_worker(
    server: WorkflowEnvironment, tmp_path: Path, receiver: Receiver
) -> None:
    receiver.status = 503
    address = server.client.service_client.config.target_host
    told = {"PERDURE_NOTIFY_WEBHOOK": receiver.url}
    async with installation(tmp_path / "home", address) as site:
        notices = site.parts.stores.notices()
        async with site.worker_process(**told) as first:
            run = await site.start(agent_runs.task(), agent_runs.script(ASKS, {"text": "done"}))
            await eventually(lambda: len(receiver.came) >= 1)
            await first.kill()
        receiver.status = 200
        before = len(receiver.came)
        async with site.worker_process(**told):

            async def delivered() -> bool:
                return [one.state for one in await notices.notices()] == ["delivered"]

            # Where the worker died between its call and its note, the lease has to end first.
            await eventually(delivered)
            assert len({headers["idempotency-key"] for _, headers, _ in receiver.came}) == 1
            assert json.loads(receiver.came[-1][2])["run"] == run
            # A person may have it sent once more, whatever became of it.
            (one,) = await notices.notices()
            doors = SimpleNamespace(notices=lambda: notices, audit=site.parts.stores.audit)
            await send_again(doors, [one.id], by="ann", now=one.made_at)  # pyright: ignore[reportArgumentType]
            await eventually(lambda: len(receiver.came) == before + 2)
            await eventually(delivered)
            (gate,) = (await site.status(run)).gates
            await site.gateway.verb(run, Answer(gate=gate.name, choice="yes"))
            await site.gateway.result(run)
