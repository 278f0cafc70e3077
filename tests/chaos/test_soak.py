"""R50: many runs at once under a mix of faults; a seed says which, to play them again."""

import asyncio
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from ground import FAST, Ground, ground
from installation import WorkerProcess
from invariants import Injected, check
from provider import Line, Play
from server_process import ServerProcess, server_process
from temporalio.service import RPCError, RPCStatusCode
from waiting import eventually

from perdure.domain.run.messages import AddInput, AnyMessage, Pause, Resume

RUNS = 40
TURNS = 4
ROUNDS = 12
CALLS = RUNS * TURNS
TASK = re.compile(r"Task \d+\.")
FAULTS = ("kill the worker", "kill the server", "signals", "signals", "signals")


class Moody:
    """A provider that refuses, is overloaded or breaks off at some first attempts."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def play(self, body: dict[str, object]) -> Sequence[Play]:
        """What this call gets: told from the task and from how far it is."""
        asked = json.dumps(body["messages"])
        turn = asked.count('"tool_result"')
        answer = self._answer(turn)
        moods = [
            Play(status=429, error="rate_limit_error", headers={"retry-after": "1"}),
            Play(status=529, error="overloaded_error"),
            Play(text="half", end="cut"),
            *[answer] * 7,
        ]
        chance = random.Random(f"{self.seed} {_task(asked)} {turn}")
        return [chance.choice(moods), answer]

    @staticmethod
    def _answer(turn: int) -> Play:
        if turn >= TURNS - 1:
            return Play(text="done", delay_s=0.2)
        tool = ("effect.once", "effect.again")[turn % 2]
        return Play(text="", calls=[(tool, {"word": f"{turn}"})], delay_s=0.2)


def _task(text: str) -> str:
    found = TASK.search(text)
    assert found is not None, text
    return found[0]


async def _strike(
    made: Ground, fault: str, chance: random.Random, runs: Sequence[str],
    worker: WorkerProcess, server: ServerProcess,
) -> None:  # fmt: skip
    match fault:
        case "kill the worker":
            await worker.kill()
            await worker.start()
        case "kill the server":
            await server.kill()
            await server.start()
        case _:
            for run in chance.sample(runs, 10):
                await _signals(made, run, str(chance.random()))


async def _signals(made: Ground, run: str, name: str) -> None:
    """A pause, an input and a resume, each sent twice."""
    messages = {
        "pause": Pause(request_id=f"p{name}"),
        "add_input": AddInput(text=f"said-{name}", request_id=f"i{name}"),
        "resume": Resume(request_id=f"r{name}"),
    }
    for verb, message in messages.items():
        for _ in range(2):
            await _signal(made, run, verb, message)


async def _signal(made: Ground, run: str, verb: str, message: AnyMessage) -> None:
    try:
        await made.site.handle(run).signal(verb, message)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:  # it has ended
            raise


def _ledgers(made: Ground) -> dict[str, list[Line]]:
    """The provider's lines by task; it books each request before it answers."""
    found: dict[str, list[Line]] = {}
    for line, body in zip(made.provider.lines(), made.provider.bodies, strict=True):
        found.setdefault(_task(json.dumps(body["messages"])), []).append(line)
    return found


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [1, 2])
async def test_r50_many_runs_under_mixed_faults(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    faults = [chance.choice(FAULTS) for _ in range(ROUNDS)]
    kills = sum("kill" in fault for fault in faults)
    assert kills, "this seed strikes nothing"
    async with (
        server_process(tmp_path) as server,
        ground(tmp_path / "g", server.address, timing=FAST) as made,
        made.process() as worker,
    ):
        made.provider.choose = Moody(seed).play
        runs = [await made.start(goal=f"Task {number}.") for number in range(RUNS)]
        for number, fault in enumerate(faults):
            # As the work goes on, so do the faults, however fast the machine is.
            await eventually(
                lambda number=number: len(made.provider.lines()) >= CALLS * number // ROUNDS,
                seconds=120,
            )
            await _strike(made, fault, chance, runs, worker, server)
        # One whose pause was the last that the dying server wrote down is woken.
        for run in runs:
            await _signal(made, run, "resume", Resume(request_id="the last"))
        results = await asyncio.wait_for(
            asyncio.gather(*(made.site.gateway.result(run) for run in runs)), 600
        )
        ledgers = _ledgers(made)
        for number, run in enumerate(runs):
            injected = Injected(kills=kills, failed_tasks=2 * kills)
            ledger = ledgers[f"Task {number}."]
            await check(made.site, run, ledger=ledger, effects=made.effects, injected=injected)
    assert {(one.outcome, one.output) for one in results} == {("accepted", "done")}
