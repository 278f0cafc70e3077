"""A retry of a run that has told its end, and that its server has not closed yet."""

from datetime import UTC, datetime

import pytest

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import AnyMessage, Receipt, Retry, Stop
from perdure.gateway.temporal_gateway import TemporalGateway
from tests.gateway.tiny import Site, spec


@pytest.mark.parametrize("told", [True, False])
async def test_a_retry_waits_until_a_run_that_told_its_end_is_closed(
    site: Site, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    await site.work()
    run = await site.gateway.start(spec("fail"))
    begun = await site.records.run(run)
    assert begun is not None
    end = {"lifecycle": "failed", "outcome": "failed", "ended_at": datetime.now(UTC)}

    async def ends(server: TemporalGateway, run: str, verb: str, message: AnyMessage) -> Receipt:
        """As a run that has saved its end and closes in its next task."""
        if told:
            await site.records.put_run(begun.model_copy(update=end))
        await site.client.get_workflow_handle(run).execute_update("stop", Stop())
        raise NotAllowed(f"{verb}: the run is failed")

    monkeypatch.setattr(TemporalGateway, "update", ends)
    if told:
        assert (await site.gateway.verb(run, Retry())).lifecycle == "running"
        assert (await site.gateway.status(run)).lifecycle == "running"
    else:
        with pytest.raises(NotAllowed, match="the run is failed"):
            await site.gateway.verb(run, Retry())
