"""What a run says it spent after many kills of its worker, beside what its provider bills.

A call that dies with its worker is billed in full: the provider had produced the reply, and nobody
was there to hear what it took. The run books what it can know of it.
"""

import json
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import pytest
from ground import Ground
from installation import WorkerProcess
from provider import Line, Play
from waiting import eventually

from perdure.domain.llm.usage import Usage
from perdure.domain.run.result import RunResult

WORD, TOKENS = "steadily ", 2  # nine characters of prose
DEATHS = 20
MOST = Decimal("1.5")
INPUT_USD, OUTPUT_USD = Decimal("0.000001"), Decimal("0.00001")


class Dictation:
    """A provider of replies that differ in length twentyfold; every second one stalls at first.

    The call that stalls is told from how many tools have answered before it, so each death takes
    another call, and between two of them one passes undisturbed.
    """

    def __init__(self, seed: int, *, deaths: int) -> None:
        chance = random.Random(seed)
        self._turns = 2 * deaths
        self._words = [chance.randint(20, 400) for _ in range(self._turns)]
        self._shares = [chance.uniform(0.1, 0.9) for _ in range(self._turns)]

    def play(self, body: dict[str, object]) -> Sequence[Play]:
        """What the attempts of this call get."""
        turn = json.dumps(body["messages"]).count('"tool_result"')
        if turn == self._turns:
            return [Play(text="done")]
        words = self._words[turn]
        call = [("effect.again", {"word": f"{turn}"})]
        whole = Play(text=WORD * words, calls=call, billed=TOKENS * words)
        if turn % 2 == 0:
            return [whole]
        return [replace(whole, stalls_at=self._shares[turn]), whole]

    def heard(self, death: int) -> float:
        """The tokens that surely came of the call that dies so many-th."""
        turn = 2 * death - 1
        return TOKENS * self._words[turn] * (self._shares[turn] - 0.1)


async def _die(made: Ground, process: WorkerProcess, death: int, heard: float) -> None:
    """Kill the worker once it has noted how far the answer came, and start another."""
    await eventually(lambda: made.provider.stalled == death)
    await eventually(lambda: _expected(made).output_tokens >= heard)
    await process.kill()
    await process.start()


def _expected(made: Ground) -> Usage:
    """What is booked for the call in flight if it is lost now; no port shows it."""
    with closing(sqlite3.connect(made.site.home / "perdure.sqlite", timeout=30)) as store:
        found = store.execute("SELECT estimate FROM attempts WHERE state = 'started'").fetchone()
    return Usage.model_validate_json(found[0]) if found else Usage()


async def _spent(made: Ground, seed: int, *, deaths: int) -> RunResult:
    dictation = Dictation(seed, deaths=deaths)
    made.provider.choose = dictation.play
    async with made.process() as process:
        run = await made.start(budget={"tokens": 50_000_000, "cost_usd": 500})
        for death in range(1, deaths + 1):
            await _die(made, process, death, dictation.heard(death))
        return await made.check(run, kills=deaths)


def _bill(lines: Sequence[Line]) -> Decimal:
    return sum(
        (line.input_tokens * INPUT_USD + line.output_tokens * OUTPUT_USD for line in lines),
        Decimal(0),
    )


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_after_twenty_kills_the_books_are_near_the_bill(chaos: Ground) -> None:
    """Never below it, and at most half as much again; the shares of a death are tested as rules."""
    result = await _spent(chaos, 1, deaths=DEATHS)
    assert result.output == "done"
    lines = chaos.provider.lines()
    assert len(lines) == 3 * DEATHS + 1, "each death takes one call with it"
    billed, tokens = _bill(lines), sum(line.tokens for line in lines)
    assert result.spend.cost_usd is not None
    assert billed <= result.spend.cost_usd <= MOST * billed
    assert tokens <= result.spend.tokens <= MOST * tokens
    assert set(result.spend.unconfirmed) >= {"tokens", "cost_usd"}
