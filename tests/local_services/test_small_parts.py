"""Ports, locks, state file, digests, readiness and logs, without any service."""

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.adapters.http_server import choose, is_free
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import NotAllowed, NotFound, RuntimeUnavailable
from perdure.domain.ports import Endpoints
from perdure.local_services import apply_settings, processes
from perdure.local_services.apply_settings import changed, digests, must_restart
from perdure.local_services.embedded_runtime import spawn_supervisor
from perdure.local_services.logs import read_logs
from perdure.local_services.processes import listens, process_ref, try_lock
from perdure.local_services.ready_file import announce_ready, is_announced, withdraw_ready
from perdure.local_services.service_commands import worker_environment
from perdure.local_services.service_plan import Plans
from perdure.local_services.state import HomeFiles, RuntimeState, read_state, write_state
from tests.local_services.support import python

MakeSettings = Callable[..., Settings]
ENDPOINTS = Endpoints(temporal_address="127.0.0.1:1", namespace="default", home="/h")
RESTARTS = "restarting the services with the new settings"
WAITS = "the running services keep their settings; `perdure down` applies"


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port)
        assert listens(os.getpid(), port)
        assert choose(port) != port
    assert choose(port) == port
    assert choose(port, avoid=frozenset({port})) != port


def test_the_codec_server_gets_a_free_port_that_the_web_ui_is_told(
    settings_of: MakeSettings,
) -> None:
    settings = settings_of(encryption_key="env:KEY")
    files = HomeFiles(settings.home)
    files.make()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        last = taken.getsockname()[1]
        plans = Plans(settings, files, {"codec": last})
        plans.place_ui()
        told = plans.temporal().command
    port = settings.codec_port
    assert plans.ports["codec"] == port != last
    assert any(f"http://127.0.0.1:{port}/" in word for word in told)
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", port))
        ours.listen()
        assert plans.codec().port == port


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with try_lock(path) as mine:
        assert mine
        with try_lock(path) as second:
            assert not second
    with try_lock(path) as again:
        assert again


@pytest.mark.parametrize(
    ("refusing", "use"),
    [
        ("run/start.lock", lambda files, _: try_lock(files.start_lock).__enter__()),
        ("run/salt", digests),
        ("logs/supervisor.log", spawn_supervisor),
    ],
)
def test_a_file_of_the_home_that_cannot_be_used_is_explained(
    home: Path,
    settings_of: MakeSettings,
    refusing: str,
    use: Callable[[HomeFiles, Settings], object],
) -> None:
    files = HomeFiles(home)
    files.make()
    (home / refusing).mkdir()  # refuses also the superuser, as a file of another user would not
    with pytest.raises(RuntimeUnavailable, match=f"{refusing} cannot be used: .*set PERDURE_HOME"):
        use(files, settings_of())


def test_a_folder_without_locks_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(processes.fcntl, "flock", refuses)
    with (
        pytest.raises(RuntimeUnavailable, match="lock cannot be used: No locks available"),
        try_lock(tmp_path / "lock"),
    ):
        pass


def test_a_process_is_named_by_its_start(tmp_path: Path) -> None:
    me = process_ref(os.getpid())
    assert me is not None and me == process_ref(os.getpid())
    child = subprocess.Popen(python("pass"))
    child.wait()
    assert process_ref(child.pid) is None


def test_state_survives_the_file_and_rubbish_is_none(home: Path) -> None:
    files = HomeFiles(home)
    files.make()
    assert read_state(files) is None
    me = process_ref(os.getpid())
    assert me is not None
    state = RuntimeState(
        supervisor=me, status="ready", endpoints=ENDPOINTS, started_at=datetime.now(UTC)
    )
    write_state(files, state)
    assert read_state(files) == state
    files.state.write_text("{half", encoding="utf-8")
    assert read_state(files) is None


@pytest.mark.parametrize(
    ("named", "ours"),
    [
        pytest.param("home", True, id="its own"),
        pytest.param("linked", True, id="by another path"),
        pytest.param("gone", True, id="moved"),
        pytest.param("original", False, id="copied"),
    ],
)
def test_a_copied_home_has_no_state_of_the_original(
    tmp_path: Path, home: Path, named: str, ours: bool
) -> None:
    files = HomeFiles(home)
    files.make()
    (tmp_path / "linked").symlink_to(home)
    (tmp_path / "original").mkdir()
    me = process_ref(os.getpid())
    assert me is not None
    endpoints = ENDPOINTS.model_copy(update={"home": str(tmp_path / named)})
    state = RuntimeState(
        supervisor=me, status="ready", endpoints=endpoints, started_at=datetime.now(UTC)
    )
    write_state(files, state)
    assert read_state(files) == (state if ours else None)


def test_home_is_for_the_user_alone(home: Path) -> None:
    HomeFiles(home).make()
    assert home.stat().st_mode & 0o077 == 0


def test_a_home_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(RuntimeUnavailable, match="set PERDURE_HOME"):
        HomeFiles(blocked / "home").make()


def test_digests_name_what_changed_and_hide_values(
    home: Path, settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = HomeFiles(home)
    files.make()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "one")
    before = digests(files, settings_of())
    assert digests(files, settings_of()) == before
    monkeypatch.setenv("ANTHROPIC_API_KEY", "two")
    monkeypatch.setenv("PERDURE_LOG_FORMAT", "json")
    now = digests(files, settings_of())
    assert changed(before, now) == ("ANTHROPIC_API_KEY",)
    assert not any("two" in value for value in now.values())


@pytest.mark.parametrize(
    ("detached", "open_runs", "restarts", "said"),
    [
        pytest.param(True, 0, True, [RESTARTS], id="no run is open"),
        pytest.param(True, 1, False, [f"{WAITS} PERDURE_IDLE_MINUTES"], id="a run is open"),
        pytest.param(False, 0, False, [], id="in the foreground nothing ends as idle"),
    ],
)
async def test_other_idle_minutes_restart_what_ends_as_idle(
    home: Path,
    settings_of: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
    detached: bool,
    open_runs: int,
    restarts: bool,
    said: list[str],
) -> None:
    async def count(*_: object) -> int:
        return open_runs

    monkeypatch.setattr(apply_settings, "_count", count)
    files = HomeFiles(home)
    files.make()
    me = process_ref(os.getpid())
    assert me is not None
    state = RuntimeState(
        supervisor=me,
        status="ready",
        endpoints=ENDPOINTS,
        settings=digests(files, settings_of()),
        started_at=datetime.now(UTC),
        detached=detached,
    )
    monkeypatch.setenv("PERDURE_IDLE_MINUTES", "0")
    told: list[str] = []
    now = settings_of()
    assert await must_restart(state, files, now, told.append, exactly=True) == restarts
    assert told == said


def test_another_version_or_environment_of_python_is_another_worker(
    home: Path, settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = HomeFiles(home)
    files.make()
    before = digests(files, settings_of())
    with monkeypatch.context() as version:
        version.setattr(apply_settings, "VERSION", "99.0.0")
        assert changed(before, digests(files, settings_of())) == ("the version of Perdure",)
    monkeypatch.setattr(sys, "prefix", "/another/venv")
    assert changed(before, digests(files, settings_of())) == ("the Python environment",)


def test_a_command_may_start_the_worker_as_its_child(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    # It ends by itself once its input is closed. A shell gives `&` no input but by another number.
    command = subprocess.Popen(
        ["sh", "-c", "exec 3<&0; cat <&3 & echo $!; wait"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0,
    )  # fmt: skip
    with command as started:
        assert started.stdout is not None
        path.write_bytes(started.stdout.readline())
        assert is_announced(path, started.pid)
        assert not is_announced(path, os.getpid())
    assert not is_announced(path, started.pid)


def test_a_worker_announces_itself(home: Path, settings_of: MakeSettings) -> None:
    files = HomeFiles(home)
    files.make()
    path = files.ready("worker")
    assert not is_announced(path, os.getpid())
    announce_ready(settings_of(ready_file=path))
    assert is_announced(path, os.getpid())
    assert not is_announced(path, os.getpid() + 1)
    announce_ready(settings_of())  # without a supervisor: nothing
    withdraw_ready(settings_of(ready_file=path))  # as the next worker does before it starts
    assert not path.exists()
    withdraw_ready(settings_of(ready_file=path))
    withdraw_ready(settings_of())


def test_a_worker_of_the_embedded_server_gets_no_profile(
    settings_of: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_API_KEY", "for-the-cloud")
    environment = worker_environment(settings_of(), ENDPOINTS)
    assert environment["TEMPORAL_ADDRESS"] == "127.0.0.1:1"
    assert "TEMPORAL_API_KEY" not in environment


def test_an_embedded_worker_registers_no_build(settings_of: MakeSettings) -> None:
    environment = worker_environment(settings_of(deployment="rolled"), ENDPOINTS)
    assert environment["PERDURE_DEPLOYMENT"] == ""


async def test_logs_are_read_and_followed(home: Path, settings_of: MakeSettings) -> None:
    files = HomeFiles(home)
    files.make()
    log = files.log("worker")
    with pytest.raises(NotFound, match="no logs"):
        await anext(read_logs(settings_of()))
    log.write_text("one\ntwo\nhal", encoding="utf-8")
    with pytest.raises(NotFound, match="Choose one of: worker"):
        await anext(read_logs(settings_of(), "wroker"))
    lines = read_logs(settings_of(), "worker", lines=1, follow=True)
    assert (await anext(lines)).text == "two"
    with log.open("a", encoding="utf-8") as file:
        file.write("f\n")
    assert (await anext(lines)).text == "half"


async def test_a_log_that_is_removed_is_followed_from_its_start_when_it_is_back(
    home: Path, settings_of: MakeSettings
) -> None:
    files = HomeFiles(home)
    files.make()
    log, other = files.log("api"), files.log("worker")
    for file in (log, other):
        file.write_text("one\ntwo\n", encoding="utf-8")
    lines = read_logs(settings_of(), lines=1, follow=True)
    assert [(await anext(lines)).text for _ in range(2)] == ["two", "two"]
    log.unlink()
    with other.open("a", encoding="utf-8") as file:
        file.write("three\n")
    assert (await anext(lines)).text == "three"
    log.write_text("a first line of a new file\n", encoding="utf-8")
    assert (await anext(lines)).text == "a first line of a new file"


async def test_a_log_that_begins_meanwhile_is_followed_with_the_others(
    home: Path, settings_of: MakeSettings
) -> None:
    files = HomeFiles(home)
    files.make()
    files.log("supervisor").write_text("starts\n", encoding="utf-8")
    every, one = (read_logs(settings_of(), name, follow=True) for name in (None, "supervisor"))
    assert [(await anext(lines)).text for lines in (every, one)] == ["starts", "starts"]
    files.log("temporal").write_text("listens\n", encoding="utf-8")
    found = await asyncio.wait_for(anext(every), 5)
    assert (found.part, found.text) == ("temporal", "listens")
    with files.log("supervisor").open("a", encoding="utf-8") as file:
        file.write("ready\n")
    assert (await anext(one)).text == "ready"


async def test_a_log_that_leads_nowhere_has_no_lines(home: Path, settings_of: MakeSettings) -> None:
    files = HomeFiles(home)
    files.make()
    files.log("worker").symlink_to(home / "gone")
    assert [line async for line in read_logs(settings_of(), "worker")] == []


async def test_a_log_that_cannot_be_read_is_named(home: Path, settings_of: MakeSettings) -> None:
    files = HomeFiles(home)
    files.make()
    files.log("worker").mkdir()  # a permission would not stop a superuser
    with pytest.raises(NotAllowed, match=r"worker\.log cannot be read: Is a directory"):
        await anext(read_logs(settings_of(), "worker"))


@pytest.mark.parametrize(("lines", "shown"), [(0, 0), (1, 1), (20_000, 20_000), (90_000, 30_000)])
async def test_as_many_lines_of_a_log_as_are_asked_for(
    home: Path, settings_of: MakeSettings, lines: int, shown: int
) -> None:
    files = HomeFiles(home)
    files.make()
    written = [f"line {number}" for number in range(30_000)]
    files.log("worker").write_text("\n".join([*written, "half"]), encoding="utf-8")
    found = [line.text async for line in read_logs(settings_of(), "worker", lines=lines)]
    assert found == written[len(written) - shown :]


@pytest.mark.parametrize(
    ("host", "named"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("::", "127.0.0.1")]
)
def test_the_address_of_the_api_is_a_url(settings_of: MakeSettings, host: str, named: str) -> None:
    settings = settings_of(api_host=host)
    plans = Plans(settings, HomeFiles(settings.home), {})
    plans.api()
    assert plans.endpoints.api_url == f"http://{named}:{plans.ports['api']}"
