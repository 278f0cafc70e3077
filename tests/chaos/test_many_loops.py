"""Two hundred loops of roles on one worker: lists, counts and filters are right while they run."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from ground import Ground, ground
from provider import MODEL, Play
from teams import APPROVED, rejected, stage, task, team
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.spec import Timing
from perdure.gateway.types import RunFilter

MANY = 200
AT_ONCE = 10
CALLS_OF_A_LOOP = 4
# The index of the server is a few seconds behind, as `note` says; the machine has other work too.
BEHIND_S = 60.0


class Reviews:
    """Every call waits for the test; the first review of a loop rejects, the second approves."""

    def __init__(self) -> None:
        self.given: Counter[str] = Counter()

    def play(self, body: dict[str, object]) -> Sequence[Play]:
        """An answer behind the gate `go`."""
        asked = json.dumps(body["messages"])
        if "Do the reviewer." not in asked:
            return [Play(text="draft", gate="go")]
        goal = re.search(r"Task \d+", asked)
        assert goal is not None
        self.given[goal[0]] += 1
        verdict = rejected("slow") if self.given[goal[0]] == 1 else APPROVED
        return [Play(text=json.dumps(verdict), gate="go")]


async def _counts(made: Ground, expected: dict[str, int]) -> None:
    filters = {
        "running": RunFilter(status="running"),
        "running roles": RunFilter(kind="roles", status="running"),
        "running agents": RunFilter(kind="agent", status="running"),
        "running labelled": RunFilter(status="running", label="many-1"),
        "completed": RunFilter(kind="roles", status="completed"),
        "accepted": RunFilter(outcome="accepted", label="many-0"),
    }

    async def as_expected() -> bool:
        found = {name: await made.site.gateway.count(wanted) for name, wanted in filters.items()}
        return found == {**dict.fromkeys(filters, 0), **expected}

    await eventually(as_expected, seconds=BEHIND_S, every=0.5)


async def _listed(made: Ground, wanted: RunFilter, runs: Sequence[str]) -> None:
    """A list holds exactly these runs, each once, over all of its pages."""

    async def exactly() -> bool:
        found: list[str] = []
        cursor = None
        while True:
            asked = wanted.model_copy(update={"cursor": cursor, "limit": 60})
            page = await made.site.gateway.list(asked)
            found += [row.id for row in page.runs]
            if (cursor := page.cursor) is None:
                return len(found) == len(runs) and set(found) == set(runs)

    await eventually(exactly, seconds=BEHIND_S, every=0.5)


@pytest.mark.slow
async def test_many_loops_are_listed_and_counted_while_they_run_and_after(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    pair = team(stage("coder"), stage("reviewer"))
    async with ground(tmp_path, address, timing=Timing(heartbeat=60.0)) as made:
        made.provider.choose = Reviews().play
        # Every loop holds a call at the gate, and the worker still answers who asks for it.
        async with made.site.worker(plugins=(), max_concurrent_activities=2 * MANY):
            specs = [
                task(
                    pair,
                    goal=f"Task {number}",
                    models={"executor": MODEL},
                    metadata={"label": f"many-{number % 2}"},
                )
                for number in range(MANY)
            ]
            runs: list[str] = []
            for first in range(0, MANY, AT_ONCE):
                some = specs[first : first + AT_ONCE]
                runs += await asyncio.gather(*(made.site.start(spec) for spec in some))
            half = {"running labelled": MANY // 2}
            await _counts(made, {"running": MANY, "running roles": MANY, **half})
            await _listed(made, RunFilter(kind="roles", status="running"), runs)
            await _listed(made, RunFilter(label="many-1", status="running"), runs[1::2])
            await _listed(made, RunFilter(kind="roles", status="completed"), [])
            made.provider.open("go")
            results = await asyncio.gather(*(made.site.gateway.result(run) for run in runs))
            await _counts(made, {"completed": MANY, "accepted": MANY // 2})
            await _listed(made, RunFilter(label="many-1", status="completed"), runs[1::2])
            await _listed(made, RunFilter(kind="roles", status="running"), [])
    assert Counter(result.reason for result in results) == {"approved": MANY}
    assert {result.iteration_count for result in results} == {2}
    assert {result.spend.model_calls for result in results} == {CALLS_OF_A_LOOP}
    assert len(made.provider.lines()) == MANY * CALLS_OF_A_LOOP
