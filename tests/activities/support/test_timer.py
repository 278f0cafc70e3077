"""What a step says that it has worked, which its run's active time counts."""

import asyncio

from perdure.activities.support.heartbeat import Stopwatch
from perdure.domain.foundation.store_wait import PATIENCE, Patience

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
