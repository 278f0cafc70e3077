"""Two hosts whose clocks are ten minutes ahead and behind: what goes by their time eats nothing."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from ground import Ground
from hosts import WRONG_CLOCK, Hosts, hosts
from invariants import Injected, check
from postgresql import postgresql
from provider import MODEL, Line, Play
from sqlalchemy import text
from temporalio.testing import WorkflowEnvironment

from perdure.domain.budget.spend_report import Period, SpendLine
from perdure.interfaces.services import Collected

MINUTES = (10.0, -10.0)
WRONG = timedelta(minutes=10)
# Less than any clock is wrong: a limit that went by a worker's clock would end each run.
LIMIT_S = 480.0
JOURNAL_DAYS = 7
RUNS = 4


@pytest.fixture
async def skewed(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Hosts]:
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    address = server.client.service_client.config.target_host
    with postgresql() as database:
        async with hosts(
            tmp_path, address, database, minutes=MINUTES, journal_days=JOURNAL_DAYS
        ) as made:
            yield made


async def _command(made: Ground, minutes: float, *words: str) -> object:
    """What a command answers on a host with such a clock."""
    environment = dict(made.environment())
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "perdure", *words, "--json",
        env={
            **os.environ,
            **made.site.settings.as_environment(),
            **environment,
            "TEMPORAL_ADDRESS": made.site.address,
            "PYTHONPATH": os.pathsep.join((str(WRONG_CLOCK), environment["PYTHONPATH"])),
            "WRONG_HOURS": str(minutes / 60),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, errors = await process.communicate()
    assert process.returncode == 0, (output, errors)
    return json.loads(output.splitlines()[-1])


async def _collected(made: Ground, minutes: float) -> Collected:
    return Collected.model_validate(await _command(made, minutes, "gc"))


def _lines(made: Ground, goal: str) -> list[Line]:
    """What the provider billed for the run with this goal."""
    both = zip(made.provider.lines(), made.provider.bodies, strict=True)
    return [line for line, body in both if goal in json.dumps(body["messages"])]


async def _stray(made: Ground, *, ago: timedelta) -> str:
    """A blob that nobody names, written so long ago by the clock of its writer."""
    address = await made.site.parts.stores.blobs.put(os.urandom(40))
    await _say(made, "UPDATE blobs SET written_at = :at WHERE address = :key", key=address, ago=ago)
    return address


async def _say(made: Ground, statement: str, *, key: str, ago: timedelta) -> None:
    at = (datetime.now(UTC) - ago).isoformat(timespec="microseconds")
    async with made.site.parts.stores.database.write() as connection:
        await connection.execute(text(statement), {"key": key, "at": at})


async def _spent(made: Ground) -> Sequence[SpendLine]:
    today = datetime.now(UTC).date()
    whole = Period(since=date(today.year - 1, 1, 1), until=today + timedelta(days=1))
    return await made.site.parts.stores.ledger().spending("model", whole)


async def _gone_for_a_week(made: Ground) -> None:
    """A deleted run whose calls may be added up by the clock that is ahead, and by no other."""
    made.provider.choose = lambda _: [Play(text="once")]
    run = await made.start(goal="once")
    await made.site.gateway.result(run)
    await made.site.gateway.delete(run)
    ago = timedelta(days=JOURNAL_DAYS) - WRONG / 2
    await _say(made, "UPDATE attempts SET started_at = :at WHERE run = :key", key=run, ago=ago)


async def _rows(made: Ground) -> Mapping[str, int]:
    async with made.site.parts.stores.database.read() as connection:
        found = await connection.execute(text("SELECT run, count(*) FROM attempts GROUP BY run"))
        return {str(run): int(count) for run, count in found}


@pytest.mark.slow
async def test_collections_and_roll_ups_by_wrong_clocks_eat_nothing_that_is_needed(
    skewed: Hosts,
) -> None:
    made = skewed.ground
    await _gone_for_a_week(made)
    made.provider.choose = _held
    goals = [f"look {number} times" for number in range(RUNS)]
    budget = {"wall_time": LIMIT_S, "active_time": LIMIT_S}
    runs = [await made.start(goal=goal, budget=budget) for goal in goals]
    await made.billed(1 + RUNS)
    fresh = [await _stray(made, ago=ago) for ago in (-WRONG, WRONG, timedelta(minutes=45))]
    old = await _stray(made, ago=timedelta(hours=1, minutes=5) + WRONG)
    for minutes in MINUTES:
        await _collected(made, minutes)
    blobs = made.site.parts.stores.blobs
    assert all([await blobs.exists(one) for one in fresh]), "an hour less what clocks are apart"
    assert not await blobs.exists(old)
    assert set(await _rows(made)) == set(runs), "the calls of the run that is gone are added up"
    spent = {line.name: line.calls for line in await _spent(made)}
    assert spent == {MODEL: 1 + RUNS}, spent
    await skewed.hosts[0].worker.kill()
    made.provider.open("later")
    await skewed.hosts[0].worker.start()
    for goal, run in zip(goals, runs, strict=True):
        await made.site.gateway.result(run)
        await check(made.site, run, ledger=_lines(made, goal), injected=Injected(kills=1))
        result = await made.site.gateway.result(run)
        assert (result.outcome, result.output) == ("accepted", "done"), result
        began = result.started_at
        rows = await made.site.parts.stores.journal.rows(run)
        assert began is not None
        wrong = {round((row.started_at - began) / timedelta(minutes=1), -1) for row in rows}
        assert wrong <= set(MINUTES), "the clocks were wrong indeed"
        assert 0 <= result.spend.active_time_s <= result.spend.wall_time_s < LIMIT_S


def _held(body: dict[str, object]) -> Sequence[Play]:
    """A call that waits, then one more: a collection meets a run in the middle of its work."""
    if "tool_result" in json.dumps(body["messages"]):
        return [Play(text="done")]
    return [Play(text="", calls=[("effect.again", {"word": "a"})], gate="later")]


@pytest.mark.slow
async def test_a_start_is_one_for_hosts_whose_clocks_are_apart(skewed: Hosts) -> None:
    made = skewed.ground
    made.provider.choose = lambda _: [Play(text="done")]
    words = ("run", "say it", "--kind", "agent", "--model", MODEL, "--id", "said-once", "--detach")
    for minutes in (*MINUTES, *reversed(MINUTES)):
        await _command(made, minutes, *words)
    result = await made.check("said-once")
    assert result.output == "done"
    await _command(made, MINUTES[1], *words)
    assert len(made.provider.lines()) == 1, "one start, one call"
