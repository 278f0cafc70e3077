"""Steps that wait for their store: what counts as waiting, and when they give up."""

import asyncio
import errno
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.testing import ActivityEnvironment
from waiting import eventually

from perdure.adapters.stores import waiting_stores
from perdure.adapters.stores.waiting_stores import in_store, patient_disk, patiently
from perdure.domain.foundation.errors import StoreAway, StoreError
from perdure.domain.foundation.retry_policies import PATIENCE, Patience

TRY_S = 0.05


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Generator[Patience]:
    """A step that can wait, and asks again at once."""
    monkeypatch.setattr(waiting_stores, "FIRST_PAUSE_S", 0.0)
    made = Patience()
    token = PATIENCE.set(made)
    yield made
    PATIENCE.reset(token)


class Shop:
    """A store that is away for so many tries, each of which takes its time."""

    def __init__(self, away: int) -> None:
        self.away = away
        self.tries = 0

    async def take(self) -> str:
        self.tries += 1
        await asyncio.sleep(TRY_S)
        if self.tries <= self.away:
            raise StoreAway("connection refused")
        return "taken"


async def test_the_tries_are_time_of_the_wait_too(patience: Patience) -> None:
    """Each may take as long as a lock or a connection does: none of it is the step's own time."""
    shop = Shop(away=3)
    assert await ActivityEnvironment().run(patiently, shop.take) == "taken"
    assert shop.tries == 4
    assert patience.total >= 3 * TRY_S
    assert patience.store_wait(0.0) is None


@pytest.mark.parametrize("away", [0, 1])
async def test_an_operation_that_takes_long_is_no_work_of_the_step_whether_it_fails_or_not(
    patience: Patience, away: int
) -> None:
    """In SQLite it may stand in a queue before a lock that somebody holds, and then succeed."""
    assert await ActivityEnvironment().run(in_store, Shop(away=away).take) == "taken"
    assert patience.total >= (away + 1) * TRY_S


async def test_a_step_that_does_not_beat_waits_for_nothing_and_its_try_is_no_work() -> None:
    token = PATIENCE.set(made := Patience(can_wait=False))
    try:
        with pytest.raises(StoreAway):
            await ActivityEnvironment().run(in_store, Shop(away=1).take)
    finally:
        PATIENCE.reset(token)
    assert made.total >= TRY_S


async def test_while_it_is_tried_again_the_step_still_says_that_it_waits(
    patience: Patience,
) -> None:
    told: list[str] = []

    async def take() -> None:
        told.append(patience.why)
        if len(told) < 3:
            raise StoreAway("connection refused")

    await ActivityEnvironment().run(patiently, take)
    assert told == ["", "connection refused", "connection refused"]


async def test_a_store_that_fails_for_good_ends_the_wait(patience: Patience) -> None:
    async def damaged() -> None:
        raise StoreError("malformed") if patience.waiting else StoreAway("locked")

    with pytest.raises(StoreError, match="malformed"):
        await ActivityEnvironment().run(patiently, damaged)
    assert patience.why == ""


async def test_a_step_waits_while_its_worker_drains_and_goes_when_the_grace_is_over(
    patience: Patience,
) -> None:
    """The store may come back before: what is in hand would be paid for again."""
    shop, environment = Shop(away=1_000), ActivityEnvironment()
    waiting = asyncio.ensure_future(environment.run(_shielded, shop))
    await eventually(lambda: patience.waiting)
    environment.worker_shutdown()
    seen = shop.tries
    await eventually(lambda: shop.tries > seen + 2 or waiting.done())
    assert not waiting.done()
    environment.cancel(ActivityCancellationDetails(worker_shutdown=True))
    with pytest.raises(StoreAway):
        await waiting


async def _shielded(shop: Shop) -> str:
    """As steps do that finish what they hold though they are cancelled."""
    work = asyncio.ensure_future(patiently(shop.take))
    while not work.done():
        try:
            await asyncio.shield(asyncio.wait({work}))
        except asyncio.CancelledError:
            continue
    return work.result()


class Folders:
    """Working folders on a disk that is full for so many tries."""

    def __init__(self, full: int, error: OSError | None = None) -> None:
        self.full = full
        self.tries = 0
        self.left = 0
        self._error = error or OSError(errno.ENOSPC, "No space left on device", "/folders/a")

    async def prepare(self, run: str) -> str:
        self.tries += 1
        if self.tries <= self.full:
            raise self._error
        return f"/folders/{run}"

    @asynccontextmanager
    async def checkout(self, tree: str) -> AsyncGenerator[str]:
        try:
            yield await self.prepare(tree)
        finally:
            self.left += 1


async def test_a_full_disk_of_working_folders_is_waited_for(patience: Patience) -> None:
    folders = Folders(full=3)
    found = patient_disk(folders)
    assert await ActivityEnvironment().run(found.prepare, "a") == "/folders/a"
    assert (folders.tries, patience.waiting) == (4, 0)


async def test_a_folder_that_is_entered_is_waited_for_and_left_each_time(
    patience: Patience,
) -> None:
    folders = Folders(full=3)

    async def work() -> str:
        async with patient_disk(folders).checkout("a") as root:
            assert folders.left == 3
            return root

    assert await ActivityEnvironment().run(work) == "/folders/a"
    assert folders.left == 4


async def test_what_is_no_full_disk_is_no_store_that_is_away(patience: Patience) -> None:
    denied = Folders(full=1, error=PermissionError(errno.EACCES, "denied", "/folders/a"))
    with pytest.raises(PermissionError):
        await ActivityEnvironment().run(patient_disk(denied).prepare, "a")
