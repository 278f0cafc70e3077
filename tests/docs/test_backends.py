"""The programs of the page on web backends, under the servers that it names, as they stand."""

import asyncio
import os
import re
import signal
import socket
import sys
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import psutil
import pytest
import yaml
from installation import Installation
from waiting import eventually

from perdure.domain.run.audit import AuditFilter
from tests.docs.newcomer import steps
from tests.docs.test_blocks import ROOT

PAGE = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
FILES = {name: text for language, name, text in steps(PAGE) if language == "python"}
COMMANDS = [text.strip() for language, _, text in steps(PAGE) if language == "sh"]
ASK = {"tool_calls": [{"name": "human.ask", "arguments": {"question": "Which <b>colour</b>?"}}]}
SAID = {"text": "Said.", "times": 99}


def command(program: str) -> str:
    """The one line of the page that runs a program."""
    [line] = [line for line in COMMANDS if program in line]
    return line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page, in one folder."""
    (made := tmp_path / "backend").mkdir()
    for name, text in FILES.items():
        (made / name).write_text(text, encoding="utf-8")
    return made


@asynccontextmanager
async def started(
    site: Installation,
    folder: Path,
    line: str,
    *replies: object,
    fds: Sequence[int] = (),
    **more: str,
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A command of the page, where its files are; every reply is a model's."""
    model = await site.script({"replies": list(replies or (SAID,))})
    (folder / "perdure.yaml").write_text(yaml.safe_dump({"models": {"executor": model}}))
    environment = {
        **os.environ,
        **site.settings.as_environment(),
        "TEMPORAL_ADDRESS": site.address,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **more,
    }
    with (folder / "log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", f"exec {line}",
            cwd=folder, env=environment, stdout=log, stderr=log, pass_fds=fds,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            for one in [*psutil.Process(process.pid).children(recursive=True), process]:
                one.kill()
            await process.wait()


@asynccontextmanager
async def served(
    site: Installation, folder: Path, line: str, *replies: object
) -> AsyncGenerator[httpx2.AsyncClient]:
    """A server as the page starts it, on a port that is held for it. It ends by itself."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        fd, port = bound.fileno(), bound.getsockname()[1]
        told = {"UVICORN_FD": str(fd), "GUNICORN_CMD_ARGS": f"--bind fd://{fd}"}
        async with (
            started(site, folder, line, *replies, fds=[fd], **told) as process,
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as visitor,
        ):
            assert (await visitor.get("/none")).status_code == 404  # waits until it is served
            yield visitor
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                await process.wait()
    log = (folder / "log").read_text()
    assert "Traceback" not in log, log


def test_every_program_and_every_command_is_run_here() -> None:
    assert set(FILES) == {
        "app.py", "asgi_shop.py", "perdure_thread.py", "flask_shop.py", "wsgi_shop.py", "tasks.py",
    }  # fmt: skip
    assert len(COMMANDS) == 5


async def _ordered(visitor: httpx2.AsyncClient, **headers: str) -> str:
    answer = await visitor.post("/texts", data={"goal": "Say it."}, headers=headers)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run"])


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_fastapi(site: Installation, folder: Path, loop: str) -> None:
    line = command("app:app")
    async with served(
        site, folder, f"{line} --loop {loop}", ASK, {"text": "Blue, then."}
    ) as visitor:
        # The run's id is made of it, and tests share a server.
        key = f"order-{uuid.uuid4().hex}"
        sent = {"X-Request-ID": key, "X-User": "anna"}
        run = await _ordered(visitor, **sent)
        assert await _ordered(visitor, **sent) == run
        waiting = await visitor.get(f"/texts/{run}", params={"wait": 0.1})
        assert (waiting.status_code, list(waiting.json())) == (202, ["phase"]), waiting.text

        page = await _asked(visitor, run)
        assert "Which &lt;b&gt;colour&lt;/b&gt;?" in page
        [action] = re.findall(r'action="([^"]+)"', page)
        form = {"text": "Blue."}
        taken = await visitor.post(f"/texts/{run}/{action}", data=form, headers=sent)
        assert taken.status_code == 303
        again = await visitor.post(f"/texts/{run}/{action}", data=form, headers=sent)
        assert (again.status_code, again.json()["code"]) == (409, "not_allowed")

        ended = await visitor.get(f"/texts/{run}", params={"wait": 30})
        assert ended.json() == {"outcome": "accepted", "text": "Blue, then."}
        await _streamed(visitor, run)
        assert (await visitor.get("/texts/none-such")).status_code == 404
        refused = await visitor.post("/texts", data={"goal": "Say more."}, headers=sent)
        assert (refused.status_code, refused.json()["code"]) == (409, "not_allowed"), refused.text
    status = await site.status(run)
    assert status.label == key
    trail = await site.parts.stores.audit.entries(AuditFilter(run=run))
    assert {one.who for one in trail} == {"anna"}


async def _asked(visitor: httpx2.AsyncClient, run: str) -> str:
    """The page of questions, as soon as one is open."""

    async def open_question() -> bool:
        return "<form" in (await visitor.get(f"/texts/{run}/questions")).text

    await eventually(open_question)
    return (await visitor.get(f"/texts/{run}/questions")).text


async def _streamed(visitor: httpx2.AsyncClient, run: str) -> None:
    """Events come whole, and from behind the one that a browser had last."""
    whole = (await visitor.get(f"/texts/{run}/events")).text
    numbers = [int(one) for one in re.findall(r"^id: (\d+)$", whole, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert re.findall(r"^event: (\w+)$", whole, re.MULTILINE)[-1] == "ended"
    seen = {"Last-Event-ID": str(numbers[-2])}
    rest = (await visitor.get(f"/texts/{run}/events", headers=seen)).text
    assert re.findall(r"^id: (\d+)$", rest, re.MULTILINE) == [str(numbers[-1])]


@pytest.mark.parametrize("program", ["asgi_shop:application", "flask_shop:app", "wsgi_shop:appl"])
async def test_other_frameworks(site: Installation, folder: Path, program: str) -> None:
    async with served(site, folder, command(program)) as visitor:
        runs = [await _ordered(visitor) for _ in range(4)]  # of both processes
        told = await asyncio.gather(*(visitor.get(f"/texts/{run}") for run in runs))
    assert [one.json() for one in told] == [{"outcome": "accepted", "text": "Said."}] * 4
    assert len(set(runs)) == 4


async def test_a_view_without_an_event_loop_uses_that_of_the_server(
    site: Installation, folder: Path
) -> None:
    async with served(site, folder, command("asgi_shop")) as visitor:
        run = await _ordered(visitor)
        await visitor.get(f"/texts/{run}")
        # Of both processes: each has a client of its own.
        told = [(await visitor.get(f"/texts/{run}/phase")).json() for _ in range(4)]
    assert told == [{"phase": "ended"}] * 4


async def test_task_processes(site: Installation, folder: Path) -> None:
    async with started(site, folder, command("tasks.py")) as process, asyncio.timeout(90):
        await process.wait()
    log = (folder / "log").read_text()
    assert (process.returncode, log.splitlines()) == (0, ["Said."] * 3), log
    assert len(await site.parts.stores.records.find_runs(roots=True)) == 2


async def test_a_task_whose_run_failed_fails_with_its_reason(
    site: Installation, folder: Path
) -> None:
    refused = {"error": "refusal", "times": 99}
    async with started(site, folder, command("tasks.py"), refused) as process:
        async with asyncio.timeout(90):
            await process.wait()
    log = (folder / "log").read_text()
    assert process.returncode != 0
    assert re.search(r"^RuntimeError: agent-say-\w+: ", log, re.MULTILINE), log


INTERRUPTED = """
import asyncio, signal, sys, threading, time
from perdure_thread import perdure

began, ended, main = threading.Event(), threading.Event(), threading.get_ident()

class SoftLimit(Exception): ...

def interrupt(*_):
    raise SoftLimit

async def work(client):
    began.set()
    try:
        await asyncio.sleep(600)
    finally:
        ended.set()

def limit():
    began.wait()
    while sys._current_frames()[main].f_code.co_name != "wait":
        time.sleep(0.01)
    signal.pthread_kill(main, signal.SIGALRM)

signal.signal(signal.SIGALRM, interrupt)
threading.Thread(target=limit).start()
try:
    perdure.call(work, seconds=600)
except SoftLimit:
    print(ended.wait(30))
"""


async def test_what_a_soft_time_limit_interrupts_does_not_go_on(
    site: Installation, folder: Path
) -> None:
    (folder / "interrupted.py").write_text(INTERRUPTED)
    async with started(site, folder, "python interrupted.py") as process, asyncio.timeout(90):
        await process.wait()
    assert (folder / "log").read_text().splitlines()[-1] == "True"
