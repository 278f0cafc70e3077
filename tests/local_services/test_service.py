"""One supervised service: how long its start may take, and what never ends its keeper."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from waiting import eventually

from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.local_services import processes
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.local_services.logs import last_words
from perdure.local_services.processes import is_alive, listens, process_ref
from perdure.local_services.service import (
    CPU_STEP_S,
    Progress,
    Service,
    ServiceCommand,
    backoff_s,
)
from tests.local_services.support import python

WAITS = "import signal; signal.pause()"
Keep = Callable[[Service], "asyncio.Task[None]"]


def part(
    folder: Path,
    script: str,
    ready: Callable[[int], Awaitable[bool]],
    *,
    optional: bool = False,
    idle_within_s: float = 1.0,
    refuses_with: int | None = None,
) -> Service:
    launch = ServiceCommand(
        command=python(script),
        environment=dict(os.environ),
        log=folder / "part.log",
        ready=ready,
        idle_within_s=idle_within_s,
        refuses_with=refuses_with,
        grace_s=1,
    )
    return Service("part", lambda: launch, on_change=lambda: None, optional=optional)


async def never(_pid: int) -> bool:
    return False


async def always(_pid: int) -> bool:
    return True


@pytest.fixture
async def keep() -> AsyncIterator[Keep]:
    """Keeps parts while the test lasts."""
    keepers: list[asyncio.Task[None]] = []

    def begin(kept: Service) -> "asyncio.Task[None]":
        keepers.append(asyncio.create_task(kept.keep()))
        return keepers[-1]

    yield begin
    for keeper in keepers:
        keeper.cancel()
    await asyncio.gather(*keepers, return_exceptions=True)


async def test_an_optional_part_that_fails_is_told_and_tried_again(
    tmp_path: Path, keep: Keep
) -> None:
    kept = part(tmp_path, "import sys; sys.exit('no such plugin')", never, optional=True)
    keeper = keep(kept)
    await eventually(lambda: kept.state.restarts >= 4)
    assert not keeper.done() and kept.settled.is_set()
    assert (kept.state.status, kept.state.detail) == ("failed", "ended with exit code 1")


def test_a_part_that_keeps_failing_is_tried_again_for_good() -> None:
    pauses = [backoff_s(failures) for failures in (0, 1, 2, 3, 10, 2_000)]
    assert pauses == [0.1, 0.1, 0.2, 0.4, 30.0, 30.0]


async def test_a_part_that_fails_is_told_with_the_words_of_this_start_alone(tmp_path: Path) -> None:
    (tmp_path / "part.log").write_text("an old error of last week\n" * 100)
    kept = part(tmp_path, "import sys; sys.exit('no such plugin')", never)
    with pytest.raises(RuntimeUnavailable) as caught:
        await kept.keep()
    assert "no such plugin" in caught.value.message
    assert "last week" not in caught.value.message


@pytest.mark.parametrize(("code", "starts"), [(2, 1), (1, 3)], ids=["refused", "failed"])
async def test_a_part_that_refuses_its_settings_is_not_started_again(
    tmp_path: Path, code: int, starts: int
) -> None:
    kept = part(tmp_path, f"import sys; print('started'); sys.exit({code})", never, refuses_with=2)
    with pytest.raises(RuntimeUnavailable, match=f"exit code {code}"):
        await kept.keep()
    assert (tmp_path / "part.log").read_text().count("started") == starts


@pytest.mark.long
async def test_a_start_may_take_long_as_it_gets_on(tmp_path: Path, keep: Keep) -> None:
    done = tmp_path / "done"
    script = (
        "import pathlib, signal, time\n"
        "for n in range(25): print(n, flush=True); time.sleep(0.2)\n"
        f"pathlib.Path({str(done)!r}).touch(); signal.pause()"
    )

    async def ready(_pid: int) -> bool:
        return done.exists()

    kept = part(tmp_path, script, ready, idle_within_s=3)
    keep(kept)
    await eventually(kept.ready.is_set)
    assert kept.state.restarts == 0


@pytest.mark.long
async def test_a_start_that_does_nothing_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(RuntimeUnavailable, match="idle for 1 s"):
        await part(tmp_path, WAITS, never).keep()


async def test_what_a_part_leaves_in_its_group_ends_with_it(tmp_path: Path, keep: Keep) -> None:
    left = tmp_path / "left"
    script = (
        "import os, pathlib, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {WAITS!r}])\n"
        f"pathlib.Path({str(left)!r}).open('a').write(f'{{child.pid}}\\n')\n"
        "os._exit(1)"
    )
    kept = part(tmp_path, script, never, optional=True)
    keep(kept)
    await eventually(lambda: kept.state.restarts >= 1)
    first = int(left.read_text().split()[0])
    await eventually(lambda: process_ref(first) is None)


async def test_a_question_that_cannot_be_put_ends_nobody(tmp_path: Path, keep: Keep) -> None:
    asked: list[int] = []

    async def fails_once(pid: int) -> bool:
        asked.append(pid)
        if len(asked) == 1:
            raise ProcessLookupError(3, "No such process")
        return True

    kept = part(tmp_path, WAITS, fails_once)
    keeper = keep(kept)
    await eventually(kept.ready.is_set)
    assert not keeper.done() and len(set(asked)) == 1


async def test_a_command_that_cannot_be_started_now_is_tried_again(
    tmp_path: Path, keep: Keep
) -> None:
    folder = tmp_path / "later"
    kept = part(folder, WAITS, always, optional=True)
    keep(kept)
    await eventually(lambda: kept.state.restarts >= 2)
    folder.mkdir()
    await eventually(kept.ready.is_set)


@pytest.mark.parametrize(
    "gone",
    [ProcessLookupError(3, "gone"), FileNotFoundError(2, "gone"), psutil.NoSuchProcess(1)],
    ids=["looked-up", "file", "psutil"],
)
def test_a_process_that_ends_between_two_looks_is_gone(
    monkeypatch: pytest.MonkeyPatch, gone: Exception
) -> None:
    child = subprocess.Popen(python(WAITS))
    try:
        ref = process_ref(child.pid)
        assert ref is not None

        def ended(*_given: object, **_named: object) -> str:
            raise gone

        monkeypatch.setattr(processes.Path, "read_text", ended)
        assert process_ref(child.pid) is None
        assert not is_alive(ref)
        monkeypatch.setattr(processes.psutil.Process, "net_connections", ended)
        assert not listens(child.pid, 1)
    finally:
        child.kill()
        child.wait()


def test_progress_is_work_or_words(tmp_path: Path) -> None:
    now, log = [0.0], tmp_path / "log"
    watched = Progress(2**22 + 1, log, patience_s=10, at_most_s=60, clock=lambda: now[0])
    for at, said, stalled in (
        (9, "", ""),
        (11, "loading", ""),
        (20, "loading", ""),
        (22, "loading", "not ready after 22 s, and idle for 10 s"),
        (23, "more", ""),
        (61, "and more", "not ready after 61 s"),
    ):
        now[0] = at
        log.write_text(said)
        assert watched.stalled() == stalled, at


def test_work_is_progress_where_reads_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, where psutil has no such counters."""
    monkeypatch.delattr(psutil.Process, "io_counters")
    now, log = [0.0], tmp_path / "log"
    watched = Progress(os.getpid(), log, patience_s=10, at_most_s=60, clock=lambda: now[0])
    enough = time.process_time() + 2 * CPU_STEP_S
    while time.process_time() < enough:
        pass
    now[0] = 11
    assert watched.stalled() == ""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param("plain words", "plain words", id="plain"),
        pytest.param(
            '{"event": "failed", "error": "no key", "at": "x"}', "failed: no key", id="json"
        ),
        pytest.param(
            '{"exception": "Traceback:\\n  File\\nValueError: 3"}', "ValueError: 3", id="trace"
        ),
        pytest.param('{"event": "no\u2028key"}', "no\u2028key", id="separator in a text"),
        pytest.param("x" * 1000, "x" * 300 + "…", id="long"),
    ],
)
def test_last_words_are_short(tmp_path: Path, line: str, told: str) -> None:
    log = tmp_path / "log"
    log.write_text(f"old\n{line}\n")
    assert last_words(log, since=4) == f"    {told}"
    assert last_words(tmp_path / "none") == ""


@pytest.mark.slow
async def test_an_idle_supervisor_sleeps(runtime: EmbeddedRuntime) -> None:
    await runtime.ensure()
    state = await runtime.state()
    assert state is not None
    supervisor = psutil.Process(state.supervisor.pid)
    await asyncio.sleep(5)  # what follows the start
    before = sum(supervisor.cpu_times()[:2])
    await asyncio.sleep(30)
    assert sum(supervisor.cpu_times()[:2]) - before < 0.3
