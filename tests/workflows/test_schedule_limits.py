"""Schedules on a real server: what a month pays for, how many runs are open, what is refused."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attempts import attempt
from holding import Holding
from installation import Installation
from listed import listed
from scheduled import HELD_TEXT, plan, schedules, triggered
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.foundation.names import loops_queue
from perdure.domain.llm.usage import Usage
from perdure.domain.run.messages import Retry
from perdure.domain.schedules.plan import MonthlyBudget
from perdure.gateway import admission
from tests.adapters.test_notifiers import Receiver, receiver

__all__ = ["receiver"]

KEEP = "import pathlib, sys; pathlib.Path(sys.argv[1]).open('a').write(sys.stdin.read() + '\\n')"


async def test_the_month_limits_its_runs_and_refuses_in_words(
    bare: Installation, tmp_path: Path
) -> None:
    site, notices = bare, tmp_path / "notices"
    wanted = await plan(site, month=MonthlyBudget(tokens=10_000))
    command = json.dumps([sys.executable, "-c", KEEP, str(notices)])
    async with site.worker(notify_command=command):
        await schedules(site).create(wanted)
        first = await triggered(site, wanted.name)
        assert (first.outcome, first.spend.tokens) == ("accepted", 2_000)
        row = await site.status(first.id)
        assert row.budget is not None
        assert row.budget.limits.tokens == 10_000, "what the month left of its own 200,000"
        # Whatever the journal says its runs have spent, whoever asked for it.
        await _spend(site, first.id, 8_000)
        refused = await triggered(site, wanted.name)
        # A raised budget takes effect at once.
        raised = wanted.model_copy(update={"month": MonthlyBudget(tokens=50_000)})
        await schedules(site).create(raised, replace=True)
        assert (await triggered(site, wanted.name)).outcome == "accepted"
    assert (refused.outcome, refused.reason, refused.spend.tokens) == ("failed", "month_spent", 0)
    words = f"The schedule {wanted.name} does not start this run"
    assert words in refused.explanation
    assert "10000 of 10000 tokens of this month are spent" in refused.explanation
    assert "--month-tokens TOKENS --replace" in refused.explanation
    stands = await schedules(site).status(wanted.name)
    assert stands.refused == 1
    assert [one.run for one in stands.starts if one.refused] == [refused.id]

    async def shown() -> bool:
        return refused.id in await listed(site.gateway)

    await eventually(shown)
    (notice,) = [json.loads(line) for line in notices.read_text().splitlines()]
    assert notice["run"] == refused.id
    assert words in notice["text"]
    with pytest.raises(NotAllowed):
        await site.gateway.verb(refused.id, Retry())


async def _spend(site: Installation, run: str, tokens: int) -> None:
    """Book a call of a run, whoever made it."""
    more = attempt(key=f"more/{tokens}", run=run).model_copy(update={"root": run})
    await site.parts.stores.journal.begin(more)
    await site.parts.stores.journal.answer(
        more, usage=Usage(output_tokens=tokens), cost_usd=None, reply="r", seconds=1.0
    )


async def test_a_refusal_that_no_channel_took_is_told_again(
    bare: Installation, receiver: Receiver
) -> None:
    """Though its run has ended: that it was refused is what people are to know."""
    site, receiver.status = bare, 503
    wanted = await plan(site, month=MonthlyBudget(tokens=10_000))
    async with site.worker(notify_webhook=receiver.url):
        await schedules(site).create(wanted)
        await _spend(site, (await triggered(site, wanted.name)).id, 10_000)
        refused, again = [await triggered(site, wanted.name) for _ in range(2)]
        assert refused.reason == again.reason == "month_spent"
        kept = site.parts.stores.notices()
        (notice,) = await kept.notices()
        assert (notice.run, notice.state) == (refused.id, "waiting")
        assert "answered 503" in str(notice.problem)
        receiver.status = 200
        await kept.settle(notice.model_copy(update={"due_at": datetime.now(UTC)}))

        async def delivered() -> bool:
            (found,) = await kept.notices()
            return found.state == "delivered"

        await eventually(delivered)
    (key,) = {headers["idempotency-key"] for _, headers, _ in receiver.came}
    assert key.startswith(f"{wanted.name}/{datetime.now(UTC):%Y-%m}-01T00:00:00+00:00/")
    assert f"The schedule {wanted.name} does not start" in receiver.came[-1][2].decode()


async def test_above_the_limit_of_open_runs_a_start_is_refused_and_told(
    bare: Installation, receiver: Receiver, holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "SHARED_S", 0.0)
    site = bare
    wanted = await plan(site, overlap="allow_all")
    model = await site.script({"replies": [HELD_TEXT]})
    limits: dict[str, object] = {"max_open_runs": 1, "above_max_open_runs": "refuse"}
    async with site.worker(notify_webhook=receiver.url, **limits):
        await schedules(site).create(wanted)
        open_run = await site.start(
            {"kind": "agent", "goal": "hold", "learn": False, "models": {"executor": model}}
        )
        await holding.begun()
        await _counted(site, 1)
        refused = await triggered(site, wanted.name)
        holding.release()
        await site.gateway.result(open_run)
        await _counted(site, 0)
        assert (await triggered(site, wanted.name)).outcome == "accepted"
    assert (refused.outcome, refused.reason, refused.spend.tokens) == ("failed", "no_room", 0)
    words = f"The schedule {wanted.name} does not start this run: 1 of 1 runs are open"
    assert words in refused.explanation
    (notice,) = [body.decode() for _, _, body in receiver.came]
    assert words in notice


async def test_above_the_limit_of_open_runs_a_start_waits_for_room(
    bare: Installation, holding: Holding
) -> None:
    site = bare
    wanted = await plan(site)
    model = await site.script({"replies": [HELD_TEXT]})
    async with site.worker(max_open_runs=1):
        await schedules(site).create(wanted)
        open_run = await site.start(
            {"kind": "agent", "goal": "hold", "learn": False, "models": {"executor": model}}
        )
        await holding.begun()
        await _counted(site, 1)
        found = await schedules(site).trigger(wanted.name)
        assert found.run is not None
        run = found.run

        async def waits() -> bool:
            described = await site.handle(run).describe()
            pending = described.raw_description.pending_activities
            return any("starts this run when there is room" in str(one) for one in pending)

        await eventually(waits)
        assert (await schedules(site).status(wanted.name)).month.holding == 0
        holding.release()
        await site.gateway.result(open_run)
        assert (await site.gateway.result(run)).outcome == "accepted"


async def _counted(site: Installation, number: int) -> None:
    """Wait until the index of the server says that so many runs are open."""
    queue = loops_queue(await site.parts.stores.records.installation())
    query = f"{admission.OPEN_ROOTS} AND TaskQueue = '{queue}'"

    async def told() -> bool:
        return (await site.client.count_workflows(query)).count == number

    await eventually(told)
