"""Clocks that are hours apart: no host takes what is new for old."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from installation import Installation
from postgresql import postgresql

from perdure.adapters.stores import open_stores as opening
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.composition.client_services import collecting_of
from perdure.domain.foundation.errors import NotAllowed
from perdure.gateway import retention
from perdure.gateway.types import Retained
from perdure.interfaces.gateways import RunGateway
from perdure.operations import clocks
from perdure.operations.clocks import refuse_a_wrong_clock
from perdure.operations.erase import Eraser


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Stores]:
    with postgresql() as url:
        stores = await open_stores(tmp_path, url)
        yield stores
        await stores.close()


def _wrong_by(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def _server(ahead_s: float | None) -> RunGateway:
    async def server_ahead() -> float | None:
        return ahead_s

    return cast(RunGateway, SimpleNamespace(server_ahead=server_ahead))


@pytest.mark.long
@pytest.mark.parametrize("hours", [-2, 2], ids=["behind", "ahead"])
async def test_a_blob_is_as_old_as_the_database_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: float
) -> None:
    monkeypatch.setattr(opening, "utc_now", lambda: _wrong_by(hours))
    with postgresql() as url:
        for blobs in (None, f"file://{tmp_path}"):
            stores = await open_stores(tmp_path, url, blobs=blobs)
            try:
                content = os.urandom(40)
                address = await stores.blobs.put(content)
                for _ in ("written", "renewed"):
                    assert await stores.blobs.put(content) == address
                    written = {one: at async for one, _, at in stores.blobs.addresses()}
                    assert abs(datetime.now(UTC) - written[address]) < timedelta(minutes=1)
            finally:
                await stores.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("hours", "server_s", "words"),
    [
        (2, None, "the database is 2 h behind this host"),
        (-2, 0.0, "the database is 2 h ahead of this host"),
        (0, 1200.0, "the Temporal server is 20 min ahead of this host"),
    ],
    ids=["ahead of the database", "behind the database", "behind the server"],
)
async def test_a_host_with_a_wrong_clock_collects_nothing(
    shared: Stores,
    monkeypatch: pytest.MonkeyPatch,
    hours: float,
    server_s: float | None,
    words: str,
) -> None:
    monkeypatch.setattr(clocks, "utc_now", lambda: _wrong_by(hours))
    with pytest.raises(NotAllowed, match=words) as refused:
        await refuse_a_wrong_clock(shared.database, _server(server_s))
    assert "NTP" in refused.value.cure


@pytest.mark.long
@pytest.mark.parametrize("minutes", [-14, 0, 14])
async def test_a_host_within_the_margin_collects(
    shared: Stores, monkeypatch: pytest.MonkeyPatch, minutes: float
) -> None:
    monkeypatch.setattr(clocks, "utc_now", lambda: _wrong_by(minutes / 60))
    await refuse_a_wrong_clock(shared.database, _server(minutes * 60))


@pytest.mark.long
@pytest.mark.parametrize("hours", [-2, 2], ids=["behind", "ahead"])
async def test_an_erasure_by_a_wrong_clock_leaves_what_is_new_to_a_collection(
    shared: Stores, monkeypatch: pytest.MonkeyPatch, hours: float
) -> None:
    async def kept() -> AsyncIterator[Retained]:
        for one in ():
            yield one

    monkeypatch.setattr(clocks, "utc_now", lambda: _wrong_by(hours))
    address = await shared.blobs.put(b"written a moment ago")
    await shared.erasure().mark((), [address], root="r", at=_wrong_by(hours))
    eraser = Eraser(shared, cast(RunGateway, SimpleNamespace(retained=kept)))
    swept = await eraser.sweep(["r"], now=_wrong_by(hours))
    assert (swept.blobs, swept.later) == (0, 1)
    swept = await eraser.sweep(["r"], now=_wrong_by(hours + 1.1))
    assert (swept.blobs, swept.later) == (1, 0)


@pytest.mark.parametrize("hours", [-2, 2], ids=["behind", "ahead"])
async def test_a_scheduled_collection_asks_the_server_for_its_time(
    bare: Installation, monkeypatch: pytest.MonkeyPatch, hours: float
) -> None:
    monkeypatch.setattr(retention, "utc_now", lambda: _wrong_by(hours))
    apart = await bare.gateway.server_ahead()
    assert apart is not None
    assert abs(apart + hours * 3600) < 60

    async def wrong(*_: object) -> None:
        raise NotAllowed("The clock is wrong.", cure="Set it.")

    monkeypatch.setattr(clocks, "refuse_a_wrong_clock", wrong)
    with pytest.raises(NotAllowed, match="The clock is wrong"):
        await collecting_of(bare.parts, bare.client)()
