"""`doctor` on the server: whether it goes by tenants, and how far the clocks are apart."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from installation import Installation
from postgresql import postgresql

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.maintenance import time_of
from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.foundation.names import loops_queue
from perdure.gateway.clock_difference import ahead
from perdure.gateway.worker_probe import server_time, server_version
from perdure.operations import doctor_server
from perdure.operations.clocks import SERVER, STORE
from perdure.operations.doctor_server import compared, fairness, unsaid

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)


def _after(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("theirs", "apart"),
    [(0, 0), (1.5, 0), (3, 0), (4, 1), (1203, 1200), (-0.5, -0.5), (-1200, -1200)],
)
def test_what_the_question_took_is_no_difference(theirs: float, apart: float) -> None:
    assert ahead(AT, _after(theirs), _after(3)) == apart


@pytest.mark.parametrize(
    ("apart", "state", "words"),
    [
        ({}, "ok", "nothing to compare with"),
        ({STORE: 0.0, SERVER: -1.9}, "ok", "goes with the database and the Temporal server"),
        ({STORE: 1200.0, SERVER: 0.0}, "warning", "the database is 20 min ahead of this host"),
        ({SERVER: -90.0}, "warning", "the Temporal server is 1 min 30 s behind this host"),
    ],
    ids=["nothing", "alike", "ahead", "behind"],
)
def test_a_clock_that_is_wrong_is_named(apart: dict[str, float], state: str, words: str) -> None:
    check = compared(apart)
    assert check.state == state
    assert words in check.found
    assert ("NTP" in check.cure) == (state == "warning")


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("temporal.example.org", "server 1.32.0 has `matching.enableFairness: true`"),
        ("team.a1b2c.tmprl.cloud", "in the settings of the namespace"),
        ("eu-west-1.aws.api.temporal.io", "in the settings of the namespace"),
    ],
)
def test_what_cannot_be_told_is_said_with_the_setting(host: str, words: str) -> None:
    check = unsaid(host, "1.32.0")
    assert "cannot be told from here" in check.found
    assert words in check.found


async def test_the_embedded_server_goes_by_tenants() -> None:
    (check,) = [one async for one in fairness(Settings.load(), None)]  # type: ignore[arg-type]
    assert (check.state, "gives each tenant its part" in check.found) == ("ok", True)


async def test_the_server_tells_its_time_and_version(bare: Installation) -> None:
    queue = loops_queue(await bare.parts.stores.records.installation())
    began = utc_now()
    theirs, ended = await server_time(bare.client, queue, now=utc_now)
    # Server and test share a clock; the server's has milliseconds.
    assert began - timedelta(seconds=1) <= theirs <= ended + timedelta(seconds=1)
    assert (await server_version(bare.client)).startswith("1.")


@pytest.mark.parametrize(
    ("wrong", "state", "words"),
    [
        (0, "ok", "goes with the Temporal server"),
        (-1200, "warning", "the Temporal server is 20 min ahead of this host"),
    ],
    ids=["right", "20 minutes behind"],
)
async def test_the_clock_of_this_host_is_compared_with_the_servers(
    bare: Installation, monkeypatch: pytest.MonkeyPatch, wrong: float, state: str, words: str
) -> None:
    async def own_server(*_: object) -> tuple[str, object]:
        return await bare.parts.stores.records.installation(), bare.client

    monkeypatch.setattr(doctor_server, "own_server", own_server)
    monkeypatch.setattr(doctor_server, "utc_now", lambda: utc_now() + timedelta(seconds=wrong))
    (check,) = [one async for one in doctor_server.clocks(bare.settings, None)]  # type: ignore[arg-type]
    assert (check.state, words in check.found) == (state, True)


@pytest.mark.long
async def test_the_database_tells_its_time(tmp_path: Path) -> None:
    with postgresql() as url:
        stores = await open_stores(tmp_path, url)
        try:
            began = utc_now()
            theirs = await time_of(stores.database)
            assert began <= theirs <= utc_now()
        finally:
            await stores.close()
