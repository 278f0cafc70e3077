"""What a step says that it has worked, which its run's active time counts."""

import asyncio

from perdure.activities.support.heartbeat import Stopwatch
from perdure.domain.foundation.retry_policies import PATIENCE, Patience, count_as_store_time
from perdure.extending.working_time import wait_within_limit

AWAY_S = 600.0


async def test_waiting_for_a_store_is_no_work() -> None:
    patience = Patience(total=AWAY_S)
    token = PATIENCE.set(patience)
    try:
        watch = Stopwatch()
        assert 0 <= watch.seconds < AWAY_S, "what was waited before is of no concern"
        now = asyncio.get_running_loop().time()
        patience.open, patience.since = 1, now - AWAY_S
        watch._started -= AWAY_S
        assert watch.seconds < AWAY_S, "it waits"
        patience.open, patience.total = 0, 2 * AWAY_S
        assert watch.seconds < AWAY_S, "it has waited"
        watch._started -= 3.0
        assert watch.seconds >= 3.0, "and works"
    finally:
        PATIENCE.reset(token)


async def test_a_step_without_patience_works_all_the_time() -> None:
    watch = Stopwatch()
    watch._started -= 2.0
    assert watch.seconds >= 2.0


async def test_work_that_stands_before_a_lock_is_not_ended_by_its_limit() -> None:
    """Nothing has failed meanwhile: the store may be slow, and the operation succeed."""
    clock = asyncio.get_running_loop().time

    async def locked() -> None:
        with count_as_store_time(clock):
            await asyncio.sleep(0.5)

    token = PATIENCE.set(Patience())
    try:
        assert await wait_within_limit(asyncio.ensure_future(locked()), seconds=0.4)
        endless = asyncio.ensure_future(asyncio.Event().wait())
        assert not await wait_within_limit(endless, seconds=0.1)
        endless.cancel()
    finally:
        PATIENCE.reset(token)
