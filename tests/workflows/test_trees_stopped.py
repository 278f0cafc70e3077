"""How long a running tree takes to end when it is told to stop now; slow tests run alone."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from delegating import books_of_the_tree_agree, decides, delegates, delegation, script, works
from installation import Installation, installation
from temporalio.testing import WorkflowEnvironment
from trees import MANAGERS, SLOW_S, nobody_runs, running

from perdure.domain.run.messages import Stop
from perdure.domain.run.spec import Timing

HEARTBEAT_S = 5.0  # the longest for which the bound is promised
ENDED_S = 15.0
BEST = "the best so far"


@pytest.fixture
async def beating(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose steps are heard of as seldom as the promise allows."""
    address = server.client.service_client.config.target_host
    opened = installation(
        tmp_path / "home", address, timing=Timing(heartbeat=HEARTBEAT_S), heartbeat_s=HEARTBEAT_S
    )
    async with opened as made, made.worker():
        yield made


@pytest.mark.slow
async def test_a_tree_of_seven_ends_within_fifteen_seconds(beating: Installation) -> None:
    leaves = tuple("abc")
    run = await beating.start(
        delegation(),
        script(
            *(delegates(leaf, by=m) for leaf, m in zip(leaves, MANAGERS, strict=True)),
            *(works(leaf, delay_s=SLOW_S) for leaf in leaves),
            # A fourth, because at most half of the workers and one more may manage.
            decides(
                "delegate",
                delegations=[
                    *({"worker": m, "instructions": m, "sub_manager": True} for m in MANAGERS),
                    {"worker": "d", "instructions": "d"},
                ],
            ),
            works("d", BEST),
        ),
    )
    await running(beating, run, 2 * len(leaves))
    began = time.monotonic()
    await beating.gateway.verb(run, Stop(mode="now", by="t"))
    result = await beating.gateway.result(run)
    await nobody_runs(beating, run)
    assert time.monotonic() - began < ENDED_S
    assert (result.outcome, result.partial) == ("stopped", True)
    assert BEST in (result.output or "")
    assert (await beating.status(run)).budget.reserved_tokens == 0
    await books_of_the_tree_agree(beating, result)
