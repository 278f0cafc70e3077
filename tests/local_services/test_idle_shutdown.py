"""Idle services end by elapsed time, whatever the clock of the host does."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from temporalio.client import Client

from perdure.local_services import idle_shutdown
from perdure.local_services.idle_shutdown import until_idle
from perdure.local_services.state import HomeFiles

HOUR_S = 3600.0
AFTER = timedelta(seconds=0.4)


async def looks_until_idle(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, uses: int, ahead_s: float
) -> int:
    """How often open runs were counted; each of the first looks sees a use by a strange clock."""
    files = HomeFiles(home)
    files.used.parent.mkdir(parents=True, exist_ok=True)
    looks = 0

    async def count_open(*_: object) -> int:
        nonlocal looks
        looks += 1
        if looks <= uses:
            moment = files.used.stat().st_mtime + (ahead_s if looks == 1 else 0.01)
            os.utime(files.used, (moment, moment))
        return 0

    monkeypatch.setattr(idle_shutdown, "count_open", count_open)
    async with asyncio.timeout(10):
        # The server is asked by `count_open` alone.
        await until_idle(cast(Client, None), files, after=AFTER, shared=False)
    return looks


async def test_a_clock_that_was_set_back_does_not_keep_idle_services(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await looks_until_idle(tmp_path, monkeypatch, uses=1, ahead_s=HOUR_S) > 1


async def test_a_clock_that_was_set_forward_does_not_end_services_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await looks_until_idle(tmp_path, monkeypatch, uses=6, ahead_s=-HOUR_S) > 6
