"""The prompt: typed keys become commands, completion knows what runs, errors do not end it."""

import asyncio
import fcntl
import io
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from installation import Installation as RealSite
from installation import eventually
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.interfaces.cli.app import build
from perdure.interfaces.cli.output import Output
from perdure.interfaces.cli.repl.completion import RUNS_NAMED, Menu, Names, Standing, branch_of
from perdure.interfaces.cli.repl.lines import HISTORY_FILE, piped_lines, typed_lines
from perdure.interfaces.cli.repl.shell import Shell, interruptible
from perdure.interfaces.cli.session import Session
from tests.interfaces.cli.memory import Installation
from tests.interfaces.cli.samples import RUN

APP = build("0", Console(file=io.StringIO()), Console(file=io.StringIO()))
CURSOR_ASKED = b"\x1b[6n"  # what a terminal answers by itself
REDRAW = b"\x0c"  # Control-L
STATUS_LINE = re.compile(rb"nothing runs|\d+ (running|paused|waiting)")
NAMES = Names(runs=("agent-a-1", "refine-b-2"), gates=("agent-a-1:g1",), loops=("harness", "pair"))


def shell_of(perdure: Installation) -> Shell:
    """A shell over memory; what it prints is in `out` and `err`."""
    console = Console(file=perdure.stdout)
    app = build("0", console, console)
    context = perdure.context()
    return Shell(Session(context, Output(context.stdout, context.stderr)), app)


def menu() -> Menu:
    return Menu(branch_of(APP), lambda: NAMES)


def offered(text: str) -> list[str]:
    """What completion offers behind a text."""
    found = menu().get_completions(Document(text), CompleteEvent())
    return [completion.text for completion in found]


async def given(*lines: str) -> AsyncGenerator[str]:
    for line in lines:
        yield line


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("/lo", {"/logs", "/loops"}),
        ("/loops ", {"list", "definitions", "status", "pause", "resume", "stop", "retry", "start"}),
        ("/loops st", {"status", "stop", "start"}),
        ("/loops pause ", {"agent-a-1", "refine-b-2", "@last", "all"}),
        ("/loops status ref", {"refine-b-2"}),
        ("/loops start ", {"harness", "pair"}),
        ("/loops start harness --pa", {"--param"}),
        ("/status age", {"agent-a-1"}),
        ("/stop a", {"agent-a-1", "all"}),
        ("/answer ", {"agent-a-1:g1"}),
        ("/qu", {"/quit"}),
    ],
)
def test_completion_offers_what_may_follow(text: str, some: set[str]) -> None:
    assert set(offered(text)) >= some
    typed = text.rpartition(" ")[2].removeprefix("/")
    assert all(name.removeprefix("/").startswith(typed) for name in offered(text))


def test_completion_keeps_to_itself_where_nothing_fits() -> None:
    assert offered("hello") == []
    assert offered("/nosuch") == []


async def test_typed_keys_run_commands_and_are_remembered(perdure: Installation) -> None:
    home = perdure.folder / "home"
    with create_pipe_input() as keys:
        # Ctrl-C drops a line; Ctrl-D leaves.
        keys.send_text(f"/loops pause {RUN}\r/nonsense\x03/status {RUN}\r\x04")
        lines = typed_lines(
            menu(), status=lambda: "1 running", home=home, source=keys, screen=DummyOutput()
        )
        code = await shell_of(perdure).run(lines)
    assert code == 0
    assert [run for run, _ in perdure.gateway.sent] == [RUN]
    assert RUN in perdure.out
    kept = (home / HISTORY_FILE).read_text()
    assert f"/status {RUN}" in kept
    assert "/nonsense" not in kept


async def test_errors_are_told_with_their_cure_and_the_shell_goes_on(perdure: Installation) -> None:
    lines = given("/lops", "/status nobody", "/loops definitions --json", "/quit", "/pause all")
    code = await shell_of(perdure).run(lines)
    assert code == 4
    assert "Did you mean /loops?" in perdure.err
    assert "nobody" in perdure.err
    names = [one["name"] for one in json.loads(perdure.out.splitlines()[-1])]
    assert "harness" in names
    assert perdure.gateway.sent == [], "nothing runs behind /quit"


async def test_a_script_gets_json_of_what_is_refused_too(perdure: Installation) -> None:
    assert await shell_of(perdure).run(given("/status nobody --json")) == 4
    assert json.loads(perdure.out)["code"] == "not_found"


async def test_a_place_that_cannot_be_looked_at_ends_its_line_alone(perdure: Installation) -> None:
    lines = given(f"/schema --check {'a' * 300}", f"/pause {RUN}")
    assert await shell_of(perdure).run(lines) == 2
    assert [type(sent).__name__ for _, sent in perdure.gateway.sent] == ["Pause"]


async def test_json_of_the_prompt_counts_for_each_of_its_lines(perdure: Installation) -> None:
    context = perdure.context()
    session = Session(context, Output(context.stdout, context.stderr, as_json=True))
    assert await Shell(session, APP).run(given(f"/status {RUN}", "/lops")) == 2
    shown, refused = map(json.loads, perdure.out.splitlines()[-2:])
    assert shown["id"] == RUN
    assert refused["code"] == "invalid_input"


async def test_help_lists_commands_and_tells_of_one(perdure: Installation) -> None:
    await shell_of(perdure).run(given("/help", "/help loops"))
    assert "/loops" in perdure.out
    assert "definitions" in perdure.out


async def test_a_pipe_is_read_line_by_line(perdure: Installation) -> None:
    text = io.StringIO(f"# steer\n/loops pause {RUN}\n\n/loops resume {RUN}")
    assert await shell_of(perdure).run(piped_lines(text)) == 0
    assert [type(sent).__name__ for _, sent in perdure.gateway.sent] == ["Pause", "Resume"]


async def test_a_line_in_another_encoding_is_refused_alone(perdure: Installation) -> None:
    given = f"/add {RUN} Gr\xfc\xdfe\n/pause {RUN}\n".encode("latin-1")
    text = io.TextIOWrapper(io.BytesIO(given), encoding="ascii")
    assert await shell_of(perdure).run(piped_lines(text)) == 2
    assert "is no text in UTF-8" in perdure.err
    assert [type(sent).__name__ for _, sent in perdure.gateway.sent] == ["Pause"]


@pytest.mark.parametrize(
    ("sent", "code", "further", "told"),
    [
        (signal.SIGTERM, 143, [], f"perdure watch {RUN}"),
        (signal.SIGINT, 130, [RUN], f"/watch {RUN}"),
    ],
)
def test_sigterm_ends_the_prompt_and_ctrl_c_only_its_command(
    perdure: Installation,
    monkeypatch: pytest.MonkeyPatch,
    sent: signal.Signals,
    code: int,
    further: list[str],
    told: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"/watch {RUN}\n/pause {RUN}\n"))
    perdure.gateway.signalled = sent
    assert perdure.run("repl") == code
    assert [run for run, _ in perdure.gateway.sent] == further
    assert f"Watch it: {told}" in perdure.err


async def test_ctrl_c_in_haste_cuts_no_cleanup_short() -> None:
    begun, done = asyncio.Event(), list[str]()

    async def work() -> int:
        try:
            begun.set()
            await asyncio.sleep(60)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.1)
            done.append("cleaned")
        return 0

    running = asyncio.create_task(interruptible(work()))
    await begun.wait()
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert done == ["cleaned"]


async def test_a_process_need_not_wait_for_a_silent_pipe() -> None:
    apart: list[bool] = []

    class Pipe(io.StringIO):
        def readline(self, size: int = -1, /) -> str:
            apart.append(threading.current_thread().daemon)
            return super().readline(size)

    assert [line async for line in piped_lines(Pipe("a\nb"))] == ["a\n", "b"]
    assert set(apart) == {True}


async def test_the_status_line_counts_what_runs_and_what_asks(perdure: Installation) -> None:
    standing = Standing()
    context = perdure.context()
    async with context.connect(start=False, on_progress=lambda _: None) as services:
        await standing.look(services)
    assert RUN in standing.names.runs
    assert "harness" in standing.names.loops


async def test_the_status_line_counts_runs_behind_the_newest_ones(perdure: Installation) -> None:
    old = perdure.gateway.statuses.pop(RUN)
    for number in range(RUNS_NAMED):
        run = f"agent-{number}"
        ended = {"id": run, "lifecycle": "completed"}
        perdure.gateway.statuses[run] = old.model_copy(update=ended)
    perdure.gateway.statuses[RUN] = old.model_copy(update={"lifecycle": "waiting"})
    standing = Standing()
    async with perdure.context().connect(start=False, on_progress=lambda _: None) as services:
        await standing.look(services)
    assert RUN not in standing.names.runs
    assert standing.line.startswith("1 waiting")


async def test_the_status_line_says_when_no_services_run(perdure: Installation) -> None:
    perdure.connect_error = ServiceUnavailable("away")
    standing = Standing()
    task = asyncio.create_task(standing.watch(perdure.context()))
    await eventually(lambda: standing.line != "looking …")
    task.cancel()
    assert standing.line.startswith("no services run")


@pytest.fixture
def environment(bare: RealSite) -> dict[str, str]:
    """What a process of this installation is started with."""
    own = bare.settings.as_environment()
    return {**os.environ, **own, "TEMPORAL_ADDRESS": bare.address, "TERM": "xterm"}


@pytest.mark.long
async def test_on_a_real_terminal(bare: RealSite, environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    words = [sys.executable, "-P", "-m", "perdure", "repl"]
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    os.set_blocking(ours, False)
    seen, answered = bytearray(), [0]

    def shows(text: str) -> bool:
        try:
            seen.extend(os.read(ours, 65536))
        except BlockingIOError:
            pass
        except OSError:
            return text.encode() in seen
        asked = seen.count(CURSOR_ASKED)
        if asked > answered[0]:
            os.write(ours, b"\x1b[1;1R" * (asked - answered[0]))
            answered[0] = asked
        return text.encode() in seen

    async def wait_for(text: str) -> None:
        await eventually(lambda: shows(text))

    def has_looked() -> bool:
        """The status line changes letter by letter: only a redrawn screen holds it whole.

        The server is shared with other tests, so that runs of theirs may be counted.
        """
        os.write(ours, REDRAW)
        shows("")
        return STATUS_LINE.search(seen) is not None

    try:
        await wait_for("perdure>")
        os.write(ours, b"/loops definitions\r")
        await wait_for("goal-driven")
        await eventually(has_looked, every=0.5)
        os.write(ours, b"/quit\r")
        await eventually(lambda: shows("") and process.poll() is not None)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert process.returncode == 0
    assert (Path(bare.home) / HISTORY_FILE).exists()
