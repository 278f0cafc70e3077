"""Going on when the server that ran a run is gone with all its histories: the store has it all."""

from pathlib import Path

import pytest
from agent_runs import books_agree
from installation import dev_server, installation
from refining import draft, drafts, spec

from perdure.domain.run.messages import Retry
from perdure.domain.run.result import Origin

BROKEN = {"error": {"status": 401, "message": "no such key"}}


@pytest.mark.slow
async def test_forks_and_retries_need_no_history(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with dev_server() as first:
        address = first.client.service_client.config.target_host
        async with installation(home, address) as site, site.worker():
            done = await site.start(
                spec(max_iterations=2, improvement_threshold=None), {"replies": drafts(0.3, 0.6)}
            )
            await site.gateway.result(done)
            replies = [*drafts(0.3), BROKEN, BROKEN, {"text": draft(1.0, "mended")}]
            broken = await site.start(spec(max_iterations=9), {"replies": replies})
            failed = await site.gateway.result(broken)
    assert (failed.outcome, failed.iteration_count) == ("failed", 3)

    async with dev_server() as second:
        address = second.client.service_client.config.target_host
        async with installation(home, address) as site, site.worker():
            told = await site.gateway.fork_spec(done, 1)
            model = await site.script({"replies": [{"text": draft(1.0, "done")}]})
            models = told.models.model_copy(update={"executor": model})
            fork = await site.gateway.fork(done, 1, told.model_copy(update={"models": models}))
            forked = await site.gateway.result(fork)
            assert (forked.outcome, forked.iteration_count) == ("accepted", 2)
            assert forked.forked_from == Origin(run=done, iteration=1)
            await books_agree(site, forked)

            await site.gateway.verb(broken, Retry(by="t", request_id="r"))
            retried = await site.gateway.result(broken)
            assert (retried.outcome, retried.iteration_count) == ("accepted", 4)
            assert retried.spend.tokens > failed.spend.tokens
            await books_agree(site, retried)
