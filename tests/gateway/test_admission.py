"""Starts at the same moment share the server's answers, count each other, and keep a limit."""

import asyncio

import pytest

from perdure.domain.foundation.errors import NoRoom, ServiceUnavailable
from perdure.domain.installation.open_limits import Above, OpenLimits
from perdure.gateway import admission
from perdure.gateway.admission import SETTLED_S, SHARED_S, Admission
from perdure.gateway.types import InstallationInfo

QUEUE = "perdure-a1-loops"


class Server:
    """Counts what a test says is open; its index is as late as the test makes it."""

    def __init__(self) -> None:
        self.open: dict[str, int] = {}
        self.asked: list[str] = []
        self.away = False

    async def count(self, query: str) -> int:
        self.asked.append(query)
        await asyncio.sleep(0)
        if self.away:
            raise ServiceUnavailable("away")
        named = [count for tenant, count in self.open.items() if f"= '{tenant}'" in query]
        return sum(named) if "PerdureTenant" in query else sum(self.open.values())


class World:
    """A server, a clock that pauses move, and an admission."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, above: Above, **limits: int) -> None:
        self.server, self.now = Server(), 100.0
        facts = InstallationInfo(address="h", limits=OpenLimits(above=above, **limits))
        self.admission = Admission(self.server, facts, clock=lambda: self.now)
        self.pauses: list[float] = []
        really = asyncio.sleep

        async def sleep(seconds: float) -> None:
            self.now += seconds
            if seconds:
                self.pauses.append(seconds)
                self.ended()
            await really(0)

        self.ended = lambda: None
        monkeypatch.setattr(admission.asyncio, "sleep", sleep)

    async def admit(self, tenant: str | None = "acme") -> None:
        await self.admission.admit(tenant, queue=QUEUE)

    async def together(self, number: int) -> list[BaseException | None]:
        return await asyncio.gather(*(self.admit() for _ in range(number)), return_exceptions=True)


async def test_starts_at_once_keep_the_limit_and_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, above="refuse", per_tenant=3)
    world.server.open = {"acme": 1}

    def indexed() -> None:
        world.server.open = {"acme": 3}

    world.ended = indexed
    ends = await world.together(8)
    assert [type(end) for end in ends if end is not None] == [NoRoom] * 6
    assert "3 of 3 runs of acme are open" in str(ends[-1])
    # One question for all eight, and a few until the index has those that were let in.
    assert len(world.server.asked) <= 1 + len({*world.pauses})
    assert world.server.asked[0].endswith("AND PerdureTenant = 'acme'")


async def test_who_only_recent_starts_keep_out_comes_in_once_the_index_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run that was let in has ended meanwhile: there is room, and nobody is refused."""
    world = World(monkeypatch, above="refuse", per_tenant=1)
    await world.admit()
    await world.admit()
    assert sum(world.pauses) >= SETTLED_S
    assert len(world.server.asked) >= 2


async def test_an_answer_serves_for_a_short_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, above="refuse", runs=100)
    for _ in range(5):
        await world.admit()
    assert len(world.server.asked) == 1
    world.now += SHARED_S
    await world.admit()
    assert len(world.server.asked) == 2


async def test_many_that_wait_ask_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, above="wait", runs=5)
    world.server.open = {"acme": 5}
    began = world.now

    def after_ten_minutes() -> None:
        if world.now > began + 600:
            world.server.open = {}

    world.ended = after_ten_minutes
    assert await world.together(5) == [None] * 5
    # Together at most one question a second, and each pause differs from the others.
    assert len(world.server.asked) <= world.now - began + 1
    assert max(world.pauses) > admission.LOOK_S
    assert max(world.pauses) <= admission.LONGEST_LOOK_S
    assert len(set(world.pauses)) > len(world.pauses) / 2


async def test_other_tenants_and_runs_of_nobody_are_not_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, above="refuse", per_tenant=1)
    world.server.open = {"acme": 1}
    await world.admit("other")
    asked = len(world.server.asked)
    await world.admit(None)
    assert len(world.server.asked) == asked, "nothing limits it, so nothing is counted"
    with pytest.raises(NoRoom):
        await world.admit("acme")


async def test_a_question_that_failed_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, above="refuse", runs=1)
    world.server.away = True
    with pytest.raises(ServiceUnavailable):
        await world.admit()
    world.server.away = False
    await world.admit()


async def test_who_gives_up_leaves_the_others_their_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, above="refuse", runs=9)
    first = asyncio.create_task(world.admit())
    second = asyncio.create_task(world.admit())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert len(world.server.asked) == 1
    assert first.cancelled() or first.cancelling()
