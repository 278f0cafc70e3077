"""Notices until a channel takes them: durable, once at a time, dead in the end, sent again."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from perdure.adapters.notice_outbox import ANSWERED, ENDED, NoticeOutbox
from perdure.adapters.notifiers import WebhookNotices
from perdure.adapters.stores.erasure import SqlErasure
from perdure.adapters.stores.figures import SqlFigures
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.foundation.errors import NotAllowed, ServiceUnavailable
from perdure.domain.run.activity_messages import NotifyRequest
from perdure.domain.run.gates import Gate
from perdure.domain.run.notices import (
    LEASE,
    MOST_ATTEMPTS,
    PAUSES_S,
    Event,
    Notice,
    failed,
    id_of,
    key_of,
    new_notice,
    sent_again,
)
from perdure.interfaces.notices import send_again
from perdure.interfaces.services import Services
from tests.adapters.test_notifiers import EVENT, Receiver, receiver

__all__ = ["receiver"]
NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Channel:
    """Takes notices, or fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.came: list[Event] = []
        self.hold: asyncio.Event | None = None

    async def notify(self, event: Event) -> bool:
        self.came.append(event)
        if self.hold is not None:
            await self.hold.wait()
        if len(self.came) <= self.failures:
            raise ServiceUnavailable("The webhook at h answered 503.")
        return True


async def never(_: str) -> bool:
    return False


async def silent(_: str) -> None:
    """A run that cannot be asked."""


def _gate(name: str, opened_at: datetime) -> Gate:
    return Gate(id=name, kind="question", prompt="Tea?", choices=("yes",), opened_at=opened_at)


class World:
    """A store, a channel, and a clock that a test moves."""

    def __init__(self, stores: Stores, channel: Channel) -> None:
        self.stores, self.channel, self.now = stores, channel, NOW
        self.ended: set[str] = set()
        self.gates: list[Gate] | None = None

    def outbox(self) -> NoticeOutbox:
        return NoticeOutbox(
            self.stores.notices(),
            self.channel,
            ended=self._has_ended,
            waiting=self._waiting,
            now=lambda: self.now,
        )

    async def _waiting(self, _: str) -> list[Gate] | None:
        return self.gates

    async def _has_ended(self, run: str) -> bool:
        return run in self.ended

    async def one(self) -> Notice:
        (found,) = await self.stores.notices().notices()
        return found


@pytest.fixture
async def world(tmp_path: Path):
    stores = await open_stores(tmp_path)
    yield World(stores, Channel())
    await stores.close()


def test_a_notice_waits_longer_each_time_and_dies_after_days() -> None:
    notice, now, waited = new_notice(EVENT, now=NOW), NOW, []
    while notice.state == "waiting":
        notice = failed(notice.model_copy(update={"attempts": notice.attempts + 1}), "no", now=now)
        waited.append((notice.due_at - now).total_seconds())
        now = notice.due_at
    assert waited[:-1] == list(PAUSES_S)
    assert (notice.state, notice.attempts, notice.problem) == ("dead", MOST_ATTEMPTS, "no")
    assert timedelta(days=2) < now - NOW < timedelta(days=4)
    fresh = sent_again(notice, now=now)
    assert (fresh.state, fresh.attempts, fresh.problem, fresh.id) == ("waiting", 0, None, notice.id)


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        ({}, 5),
        ({"retry-after": "2"}, 5),
        ({"retry-after": "90"}, 90),
        ({"retry-after": "9999999"}, 86_400),
        ({"retry-after": "soon"}, 5),
    ],
    ids=str,
)
async def test_a_receiver_that_asks_for_time_gets_it_up_to_a_day(
    world: World, receiver: Receiver, asked: dict[str, str], waited: int
) -> None:
    receiver.status, receiver.headers = 429, asked
    await NoticeOutbox(
        world.stores.notices(),
        WebhookNotices(receiver.url),
        ended=never,
        waiting=silent,
        now=lambda: world.now,
    ).notify(EVENT)
    assert ((await world.one()).due_at - NOW).total_seconds() == waited


async def test_a_channel_that_takes_it_gets_it_once(world: World) -> None:
    assert await world.outbox().notify(EVENT)
    assert await world.outbox().notify(EVENT)
    world.now += timedelta(days=9)
    assert await world.outbox().deliver_due() == 0
    assert world.channel.came == [EVENT]
    assert (await world.one()).state == "delivered"


async def test_after_a_reset_another_question_of_the_same_name_is_told_too(world: World) -> None:
    before: Event = {**EVENT, "opened_at": "2026-01-02T00:00:00Z"}
    after: Event = {**EVENT, "opened_at": "2026-01-02T01:00:00Z"}
    for event in (before, after, after):
        assert await world.outbox().notify(event)
    assert world.channel.came == [before, after]


_REFUSED: Event = {
    "run": "news-1", "gate": "", "reminder": 0, "kind": "schedule", "schedule": "news",
    "month": "2026-01-01T00:00:00+00:00", "prompt": "10 of 10 USD are spent.",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"run": "news-2"}, 1),
        ({"run": "news-2", "month": "2026-02-01T00:00:00+00:00"}, 2),
        ({"run": "news-2", "prompt": "20 of 20 USD are spent."}, 2),
        ({"schedule": "notes"}, 2),
    ],
    ids=["another start", "another month", "another limit", "another schedule"],
)
async def test_a_month_that_is_spent_is_told_once(world: World, changes: Event, told: int) -> None:
    for event in (_REFUSED, _REFUSED | changes):
        assert await world.outbox().notify(event)
    assert len(world.channel.came) == told


def test_rows_and_steps_from_before_keep_their_key() -> None:
    assert key_of(EVENT) == "refine-bottle-1a/g1/0"
    asked = NotifyRequest(run="r1", gate="g1", kind="escalation", prompt="Go on?")
    assert "opened_at" not in asked.model_dump_json()


async def test_what_failed_is_tried_when_its_time_has_come(world: World) -> None:
    world.channel.failures = 2
    assert not await world.outbox().notify(EVENT)
    assert await world.outbox().deliver_due() == 0
    assert len(world.channel.came) == 1
    for pause in PAUSES_S[:2]:
        world.now += timedelta(seconds=pause)
        await world.outbox().deliver_due()
    found = await world.one()
    assert (found.state, found.attempts, found.problem) == ("delivered", 3, None)


async def test_of_many_workers_one_sends(world: World) -> None:
    await world.stores.notices().put(new_notice(EVENT, now=NOW))
    took = await asyncio.gather(*(world.outbox().deliver_due() for _ in range(8)))
    assert sum(took) == 1
    assert len(world.channel.came) == 1


async def test_who_dies_while_it_sends_is_followed_by_another(world: World) -> None:
    world.channel.hold = asyncio.Event()
    dying = asyncio.create_task(world.outbox().notify(EVENT))
    while not world.channel.came:
        await asyncio.sleep(0)
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    world.channel.hold = None
    assert await world.outbox().deliver_due() == 0
    world.now += LEASE
    assert await world.outbox().deliver_due() == 1
    assert len(world.channel.came) == 2


@pytest.mark.parametrize("attempts", [1, MOST_ATTEMPTS])
async def test_who_fails_late_takes_back_nothing_that_another_delivered(
    world: World, attempts: int
) -> None:
    store, slow = world.stores.notices(), Channel(failures=1)
    slow.hold = asyncio.Event()
    stalled = NoticeOutbox(store, slow, ended=never, waiting=silent, now=lambda: world.now)
    notice = new_notice(EVENT, now=NOW).model_copy(update={"attempts": attempts - 1})
    await store.put(notice)
    late = asyncio.create_task(stalled.deliver_due())
    while not slow.came:
        await asyncio.sleep(0.01)
    world.now += LEASE
    assert await world.outbox().deliver_due() == 1
    slow.hold.set()
    assert await late == 0
    assert (await world.one()).state == "delivered"


async def test_nobody_is_told_again_of_a_run_that_has_ended(world: World) -> None:
    world.channel.failures = 1
    await world.outbox().notify(EVENT)
    world.ended.add(str(EVENT["run"]))
    world.now += timedelta(days=1)
    assert await world.outbox().deliver_due() == 0
    found = await world.one()
    assert (found.state, found.problem, found.ended_at) == ("dropped", ENDED, world.now)
    assert len(world.channel.came) == 1
    # Nobody missed it, so nobody is alarmed.
    assert await SqlFigures(world.stores.database).dead_notices(since=NOW) == 0


@pytest.mark.parametrize(
    ("opened", "gates", "state"),
    [
        (None, [_gate("g1", NOW)], "delivered"),
        (NOW, [_gate("g1", NOW), _gate("g2", NOW)], "delivered"),
        (NOW, None, "delivered"),
        (NOW, [], "dropped"),
        (None, [_gate("g2", NOW)], "dropped"),
        (NOW, [_gate("g1", NOW + timedelta(hours=1))], "dropped"),
    ],
    ids=["open, of before", "open", "unknown", "none is open", "another", "another since a reset"],
)
async def test_nobody_is_told_again_of_a_gate_that_is_closed(
    world: World, opened: datetime | None, gates: list[Gate] | None, state: str
) -> None:
    world.channel.failures = 1
    asked = NotifyRequest(run="r1", gate="g1", kind="question", prompt="Tea?", opened_at=opened)
    await world.outbox().notify(json.loads(asked.model_dump_json()))
    world.gates = gates
    world.now += timedelta(seconds=PAUSES_S[0])
    told = await world.outbox().deliver_due()
    found = await world.one()
    problem = ANSWERED if state == "dropped" else None
    assert (told, found.state, found.problem) == (state == "delivered", state, problem)


async def test_what_is_sent_again_is_not_sent_for_a_run_that_has_ended(world: World) -> None:
    await world.outbox().notify(EVENT)
    world.ended.add(str(EVENT["run"]))
    seen = await world.one()
    assert await world.stores.notices().renew(sent_again(seen, now=world.now), seen=seen)
    assert await world.outbox().deliver_due() == 0
    assert (await world.one()).problem == ENDED


@pytest.mark.parametrize("named", [True, False], ids=["by id", "all dead ones"])
async def test_of_two_who_have_it_sent_again_one_does(world: World, named: bool) -> None:
    kept = world.stores.notices()
    notice = new_notice(EVENT, now=NOW).model_copy(update={"attempts": 99})
    await kept.put(failed(notice, "no", now=NOW))
    (dead,) = await kept.notices("dead")

    async def as_seen(*_: object, **__: object) -> list[Notice]:
        return [dead]

    seen = SimpleNamespace(notices=as_seen, renew=kept.renew)
    doors = cast("Services", SimpleNamespace(notices=lambda: seen, audit=world.stores.audit))
    ids = [notice.id, notice.id[:12]] if named else None
    assert [one.id for one in await send_again(doors, ids, by="ann", now=NOW)] == [notice.id]
    await world.outbox().deliver_due()
    if named:
        with pytest.raises(NotAllowed, match="waits for its next attempt already"):
            await send_again(doors, ids, by="bob", now=NOW)
    else:
        assert await send_again(doors, ids, by="bob", now=NOW) == []
    assert (await world.one()).state == "delivered"
    assert len(world.channel.came) == 1


async def test_what_asks_nobody_is_told_even_of_a_run_that_has_ended(world: World) -> None:
    world.channel.failures = 1
    await world.outbox().notify({**EVENT, "gate": "", "kind": "schedule"})
    world.ended.add(str(EVENT["run"]))
    world.now += timedelta(seconds=PAUSES_S[0])
    assert await world.outbox().deliver_due() == 1
    assert (await world.one()).state == "delivered"


async def test_the_list_has_the_id_that_the_receiver_saw(world: World, receiver: Receiver) -> None:
    hook = WebhookNotices(receiver.url, secret=b"s" * 32)
    box = NoticeOutbox(
        world.stores.notices(), hook, ended=never, waiting=silent, now=lambda: world.now
    )
    receiver.status = 503
    assert not await box.notify(EVENT)
    assert "answered 503" in ((await world.one()).problem or "")
    receiver.status = 204
    world.now += timedelta(seconds=PAUSES_S[0])
    assert await box.deliver_due() == 1
    (_, first, _), (_, again, _) = receiver.came
    assert first["webhook-id"] == again["webhook-id"] == (await world.one()).id
    assert id_of(key_of(EVENT)) == first["webhook-id"]


async def test_old_notices_go_and_waiting_ones_stay(world: World) -> None:
    await world.outbox().notify(EVENT)
    world.channel.failures = 9
    await world.outbox().notify({**EVENT, "gate": "g2"})
    assert await world.stores.notices().forget(before=NOW + timedelta(days=1)) == 1
    assert (await world.one()).gate == "g2"


async def test_notices_of_an_erased_run_are_gone(world: World) -> None:
    await world.outbox().notify(EVENT)
    await world.outbox().notify({**EVENT, "run": "another"})
    await SqlErasure(world.stores.database).drop([str(EVENT["run"])])
    assert (await world.one()).run == "another"
