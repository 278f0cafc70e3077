"""R35: many loops of roles against a provider that allows few calls a second."""

import asyncio
import json
import math
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from ground import ground
from provider import MODEL, Play
from teams import APPROVED, stage, task, team
from temporalio.testing import WorkflowEnvironment

from perdure.domain.run.spec import Timing

LOOPS = 50
CALLS_OF_A_LOOP = 2
LEAST = LOOPS * CALLS_OF_A_LOOP
MOST = 1.2 * LEAST
GAP_S = 1 / 5
USED_UP_S = 1.0
# What a queue with a pace of its own may hand out beyond it, and how late its first call may come.
AT_ONCE = 10
LATE_S = 5.0


class Limiter:
    """A provider that takes five calls a second: it tells each refused one when its turn is.

    `saved_s` is how much of a pause it remembers, to be used without a refusal. Without any, the
    limit is already used up by others when the first call comes.
    """

    def __init__(self, *, saved_s: float) -> None:
        self.saved_s = saved_s
        self.free_at: float | None = None
        self.turns: dict[str, float] = {}
        self.answered: Counter[str] = Counter()
        self.refused = 0
        self.early = 0

    def play(self, body: dict[str, object]) -> Sequence[Play]:
        """An answer, or a 429 with the moment that is kept for this call."""
        now, asked = time.monotonic(), json.dumps(body["messages"])
        if asked in self.turns:
            self.early += self.turns[asked] > now
        else:
            self.turns[asked] = self._turn(now)
        if self.turns[asked] <= now:
            return [self._answer(asked)]
        self.refused += 1
        wait = str(math.ceil((self.turns[asked] - now) * 100) / 100)
        return [Play(status=429, error="rate_limit_error", headers={"retry-after": wait})]

    def _turn(self, now: float) -> float:
        if self.free_at is None:
            self.free_at = now if self.saved_s else now + USED_UP_S
        turn = max(now, self.free_at - self.saved_s)
        self.free_at = max(now, self.free_at) + GAP_S
        return turn

    def _answer(self, asked: str) -> Play:
        goal = re.search(r"Task \d+", asked)
        assert goal is not None
        self.answered[goal[0]] += 1
        return Play(text=json.dumps(APPROVED) if "Do the reviewer." in asked else "draft")


@pytest.mark.slow
@pytest.mark.parametrize("pace", [None, 4.0], ids=["unknown limit", "limit in the settings"])
async def test_r35_a_storm_of_limits_starves_no_loop_and_wastes_few_calls(
    server: WorkflowEnvironment, tmp_path: Path, pace: float | None
) -> None:
    # Providers count by the minute; a part of one is enough for what a busy machine holds up.
    limiter = Limiter(saved_s=0.0 if pace is None else 10.0)
    address = server.client.service_client.config.target_host
    pair = team(stage("coder"), stage("reviewer"))
    async with ground(tmp_path, address, timing=Timing(heartbeat=30.0)) as made:
        made.provider.choose = limiter.play
        async with made.site.worker(plugins=(), model_calls_per_second=pace):
            specs = [
                task(pair, goal=f"Task {number}", models={"executor": MODEL})
                for number in range(LOOPS)
            ]
            runs = [await made.site.start(spec) for spec in specs]
            results = await asyncio.wait_for(
                asyncio.gather(*(made.site.gateway.result(run) for run in runs)), 300
            )
        lines = made.provider.lines()
    assert Counter(result.reason for result in results) == {"approved": LOOPS}
    if pace is None:
        assert limiter.refused > 0, "there was no storm"
    else:
        # Who knows the limit sets it for all workers of the queue, and hardly a call is wasted.
        assert len(lines) <= MOST
        assert len(lines) <= AT_ONCE + pace * (lines[-1].at - lines[0].at + LATE_S)
    assert limiter.early == 0, "a call came back before its turn"
    assert limiter.answered == {f"Task {number}": CALLS_OF_A_LOOP for number in range(LOOPS)}
    # Nobody is asked twice in vain: what was refused comes once more, when it was told to.
    assert max(line.attempt for line in lines) <= 2
    assert len(lines) == LEAST + limiter.refused
    assert sum(result.spend.tokens for result in results) == sum(line.tokens for line in lines)
