"""How a command waits for services that another one started, with stubs instead of services."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.local_services import embedded_runtime
from perdure.local_services.apply_settings import digests
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.local_services.processes import ProcessRef, process_ref
from perdure.local_services.state import HomeFiles, PartState
from perdure.local_services.supervisor import NOT_ALONE
from tests.local_services.support import GONE, write

MakeSettings = Callable[..., Settings]


async def test_a_service_that_does_not_come_back_is_named_with_its_last_words(
    home: Path, settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_runtime, "RESTARTED_WITHIN_S", 0.2)
    down = PartState(name="worker", status="restarting", detail="ended with exit code 2")
    write(home, supervisor=process_ref(os.getpid()), status="starting", parts=(down,))
    HomeFiles(home).log("worker").write_text("mcp.yaml: servers must be a mapping\n")
    told: list[str] = []
    with pytest.raises(RuntimeUnavailable, match=r"(?s)exit code 2.*mcp.yaml: servers must"):
        await EmbeddedRuntime(settings_of()).ensure(told.append)
    assert told == ["worker: restarting (ended with exit code 2)"]


@pytest.mark.parametrize(
    ("exit_code", "said"),
    [
        pytest.param(NOT_ALONE, None, id="another supervisor was there first"),
        pytest.param(1, "ended before the services were ready", id="it failed"),
    ],
)
async def test_a_supervisor_that_finds_another_is_no_failure(
    home: Path,
    settings_of: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
    exit_code: int,
    said: str | None,
) -> None:
    settings = settings_of()

    def spawned(files: HomeFiles, _: Settings) -> ProcessRef:
        write(home, supervisor=process_ref(os.getpid()), settings=digests(files, settings))
        words = [sys.executable, "-c", f"input(); raise SystemExit({exit_code})"]
        ours, theirs = os.pipe()
        pid = os.posix_spawn(
            words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, ours, 0)]
        )
        started = process_ref(pid)
        assert started is not None
        os.write(theirs, b"\n")
        os.close(ours)
        os.close(theirs)
        return started

    monkeypatch.setattr(embedded_runtime, "spawn_supervisor", spawned)
    told: list[str] = []
    if said is not None:
        with pytest.raises(RuntimeUnavailable, match=said):
            await EmbeddedRuntime(settings).ensure(told.append)
        return
    endpoints = await EmbeddedRuntime(settings).ensure(told.append)
    assert endpoints.home == str(home)
    assert told == ["starting the services", "another program starts or stops the services"]


async def test_services_that_stop_and_stay_after_all_are_used(
    home: Path, settings_of: MakeSettings
) -> None:
    me, settings = process_ref(os.getpid()), settings_of()
    write(home, supervisor=me, status="stopping")
    told: list[str] = []

    def on_progress(line: str) -> None:
        told.append(line)
        write(home, supervisor=me, settings=digests(HomeFiles(home), settings))

    await EmbeddedRuntime(settings).ensure(on_progress)
    assert told == ["the services are stopping"]


async def test_services_that_somebody_stops_while_they_start_are_started_anew(
    home: Path, settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, settings = process_ref(os.getpid()), settings_of()
    looks = 0

    def alive(reference: ProcessRef) -> bool:
        nonlocal looks
        looks += 1
        return reference == me or looks == 1

    def spawned(files: HomeFiles, _: Settings) -> ProcessRef:
        assert me is not None
        write(home, supervisor=me, settings=digests(files, settings))
        return me

    write(home, supervisor=GONE, status="starting")
    monkeypatch.setattr(embedded_runtime, "is_alive", alive)
    monkeypatch.setattr(embedded_runtime, "spawn_supervisor", spawned)
    told: list[str] = []
    await EmbeddedRuntime(settings).ensure(told.append)
    assert told == ["the services are stopping", "starting the services"]
