"""`doctor` on the working folders of this host, and who serves them."""

from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.adapters.workspaces.local import NOTE, WORK_FOLDER, host_id
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.foundation.names import host_probe_queue, host_queue
from perdure.gateway.worker_probe import Backlog
from perdure.interfaces.services import Check
from perdure.operations import doctor_hosts

POSTGRESQL = "postgresql://somebody@database/perdure"


async def _checks(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, pollers: tuple[str, ...] | None = None
) -> list[Check]:
    """The checks, where these fetch from the queue of the host; None: there is no server."""

    async def own_server(*_: object) -> tuple[str, object]:
        if pollers is None:
            raise ServiceUnavailable("No services of this installation run.")
        return "inst", object()

    async def backlog(_client: object, queue: str, **_: object) -> Backlog:
        own = host_probe_queue(host_queue("inst", host_id(settings.home / WORK_FOLDER)))
        assert queue == own
        return Backlog(tasks=0, age_s=0.0, pollers=frozenset(pollers or ()))

    monkeypatch.setattr(doctor_hosts, "own_server", own_server)
    monkeypatch.setattr(doctor_hosts, "backlog", backlog)
    connect = None
    return [one async for one in doctor_hosts.host(settings, connect)]  # type: ignore[arg-type]


async def test_a_store_of_one_host_has_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (check,) = await _checks(Settings.load(home=tmp_path), monkeypatch)
    assert (check.state, check.found) == ("ok", "the only one: SQLite serves one host")


async def test_a_home_without_a_worker_is_not_made_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.load(home=tmp_path, database_url=POSTGRESQL)
    (check,) = await _checks(settings, monkeypatch, pollers=())
    assert (check.state, "no worker has run" in check.found) == ("ok", True)
    assert not (tmp_path / WORK_FOLDER).exists()


@pytest.mark.parametrize(
    ("folders", "pollers", "state", "words"),
    [
        (2, ("7@a", "8@a"), "ok", "2 working folders"),
        (0, (), "ok", "0 working folders"),
        (1, (), "warning", "1 working folder, and no worker serves them"),
        (1, ("7@a", "7@b"), "warning", "served by 2 machines (a, b)"),
    ],
    ids=["well", "nothing to serve", "nobody", "copied or shared"],
)
async def test_who_serves_the_folders_of_this_host(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    folders: int,
    pollers: tuple[str, ...],
    state: str,
    words: str,
) -> None:
    settings = Settings.load(home=tmp_path, database_url=POSTGRESQL)
    host_id(tmp_path / WORK_FOLDER)
    for number in range(folders):
        place = tmp_path / WORK_FOLDER / f"run-{number}"
        place.mkdir()
        (place / NOTE).write_text("{}")
    (check,) = await _checks(settings, monkeypatch, pollers=pollers)
    assert (check.state, words in check.found) == (state, True), check
    assert bool(check.cure) is (state != "ok")


async def test_an_absent_server_is_told_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.load(home=tmp_path, database_url=POSTGRESQL)
    host_id(tmp_path / WORK_FOLDER)
    assert await _checks(settings, monkeypatch) == []
