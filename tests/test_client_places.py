"""A client belongs to the process and the event loop that opened it; what else opens one."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from installation import Installation

from perdure import Client, RunHandle
from perdure.domain.foundation.errors import NotAllowed

TASK = {"kind": "agent", "goal": "Say it.", "tools": {"access": "minimal"}}
PREAMBLE = """
import asyncio, os, sys, traceback
from perdure import Client, PerdureError

TASK = {"kind": "agent", "goal": "Say it.", "models": {"executor": sys.argv[1]}}

async def answered():
    async with await Client.connect() as client:
        return (await client.run(TASK)).output

def in_a_fork(work):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            work()
        except PerdureError as error:
            print(error)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(0)
    _, how = os.waitpid(child, 0)
    if how:
        print(f"The child ended with status {how}.", file=sys.stderr)
"""

OWN = "print(asyncio.run(answered()))"


async def ran(site: Installation, program: str, folder: Path) -> tuple[int | None, str, str]:
    """The exit code, output and errors of a program that runs against an installation."""
    file = folder / "program.py"
    file.write_text(PREAMBLE + program, encoding="utf-8")
    model = await site.script({"replies": [{"text": "Said.", "times": 9}]})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", str(file), model,
        env={**os.environ, **site.settings.as_environment(), "TEMPORAL_ADDRESS": site.address},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, out.decode(), err.decode()


async def printed(site: Installation, program: str, folder: Path) -> list[str]:
    """What a program prints that runs against an installation, and that warns of nothing."""
    code, out, err = await ran(site, program, folder)
    assert (code, err) == (0, "")
    return out.splitlines()


async def test_a_client_is_refused_after_a_fork(site: Installation, tmp_path: Path) -> None:
    told = await printed(
        site,
        """
loop = asyncio.new_event_loop()
client = loop.run_until_complete(Client.connect())
in_a_fork(lambda: loop.run_until_complete(client.run(TASK)))
in_a_fork(lambda: loop.run_until_complete(client.close()))
print(loop.run_until_complete(client.run(TASK)).output)
loop.run_until_complete(client.close())
""",
        tmp_path,
    )
    *refused, said = told
    assert said == "Said."
    words = "\n".join(refused)
    assert words.count("Connections do not survive a fork.") == 2
    assert words.count("Open the first client of the parent after the fork") == 2


USED = """
from temporalio.client import Client as Plain
asyncio.run(Plain.connect(os.environ["TEMPORAL_ADDRESS"]))
"""
OPEN = """
loop = asyncio.new_event_loop()
left = loop.run_until_complete(Client.connect())
loop.run_until_complete(left.run(TASK))
"""


@pytest.mark.parametrize(
    ("before", "parent"),
    [(OWN, "process {}"), (OPEN, "process {}"), (USED, "another one")],
    ids=["of a closed client", "of an open one", "of a client of the SDK"],
)
async def test_no_fork_of_a_connected_process_opens_a_client(
    site: Installation, tmp_path: Path, before: str, parent: str
) -> None:
    program = f"""
{before}
print(os.getpid())
in_a_fork(lambda: asyncio.run(answered()))
in_a_fork(lambda: in_a_fork(lambda: asyncio.run(answered())))
"""
    told = await printed(site, program, tmp_path)
    pid = told[told[0] == "Said."]
    words = "\n".join(told)
    assert words.count(f"was forked off from {parent.format(pid)} after that had connected") == 2
    assert words.count("start this process without a fork: multiprocessing.get_context") == 2


async def test_who_forks_first_has_a_client_in_each_process(
    site: Installation, tmp_path: Path
) -> None:
    told = await printed(
        site,
        """
async def unused():
    await (await Client.connect(start=False)).close()

asyncio.run(unused())
in_a_fork(lambda: print(asyncio.run(answered())))
in_a_fork(lambda: print(asyncio.run(answered())))
print(asyncio.run(answered()))
""",
        tmp_path,
    )
    assert told == ["Said."] * 3


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
async def test_processes_without_a_fork_open_clients_beside_their_parent(
    site: Installation, tmp_path: Path, method: str
) -> None:
    program = f"""
import multiprocessing

def said(number):
    return asyncio.run(answered())

if __name__ == "__main__":
    print(said(0))
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        print(*pool.map(said, range(2)), sep="\\n")
"""
    assert await printed(site, program, tmp_path) == ["Said."] * 3


@pytest.mark.parametrize("before", [OWN, OPEN], ids=["of a closed one", "of an open one"])
async def test_a_fork_ends_like_any_program(
    site: Installation, tmp_path: Path, before: str
) -> None:
    program = f"""
import signal
{before}
sys.stdout.flush()
child = os.fork()
if child:
    print(os.waitpid(child, 0)[1])
else:
    signal.alarm(30)
    sys.exit()
"""
    answers = ["Said."] if before == OWN else []
    assert await printed(site, program, tmp_path) == [*answers, "0"]


async def test_a_program_that_fails_with_an_open_client_shows_its_own_error_alone(
    site: Installation, tmp_path: Path
) -> None:
    code, out, err = await ran(
        site,
        """
async def main():
    client = await Client.connect()
    print((await client.run(TASK)).output)
    raise LookupError("of my own")

asyncio.run(main())
""",
        tmp_path,
    )
    assert (code, out) == (1, "Said.\n")
    assert err.startswith("Traceback") and err.endswith("\nLookupError: of my own\n")
    assert err.count("Traceback") == 1


@pytest.mark.parametrize(
    "end", ["loop.close()", ""], ids=["a loop that was closed at once", "a loop that was left"]
)
async def test_a_client_that_nobody_closes_says_nothing_at_the_end(
    site: Installation, tmp_path: Path, end: str
) -> None:
    program = f"""
loop = asyncio.new_event_loop()
client = loop.run_until_complete(Client.connect())
print(loop.run_until_complete(client.run(TASK)).output)
{end}
"""
    assert await printed(site, program, tmp_path) == ["Said."]


async def test_a_client_is_closed_once_nobody_has_it_or_a_handle_of_it(
    site: Installation, tmp_path: Path
) -> None:
    told = await printed(
        site,
        """
import gc
from perdure.adapters.stores.database import Database
close = Database.close

closed = asyncio.Event()

async def told_of(database):
    print("closed")
    await close(database)
    closed.set()

Database.close = told_of

async def main():
    run = await (await Client.connect()).start(TASK)
    gc.collect()
    await asyncio.sleep(0.2)
    print((await run.result()).output)
    run = None
    gc.collect()
    await asyncio.wait_for(closed.wait(), 30)
    print("end")

asyncio.run(main())
""",
        tmp_path,
    )
    assert told == ["Said.", "closed", "end"]


async def test_a_client_is_refused_in_another_event_loop(
    site: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in site.settings.as_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TEMPORAL_ADDRESS", site.address)
    model = await site.script({"replies": [{"text": "Said.", "times": 9}]})
    task = {**TASK, "models": {"executor": model}}
    async with await Client.connect() as client:
        run = await client.start(task)
        uses: list[Callable[[Client, RunHandle], Awaitable[object]]] = [
            lambda client, run: client.start(task),
            lambda client, run: client.runs(),
            lambda client, run: run.status(),
            lambda client, run: run.stop(),
            lambda client, run: anext(run.events()),
            lambda client, run: anext(run.stream()),
            lambda client, run: client.experiments.list(),
            lambda client, run: client.close(),
        ]
        for use in uses:
            with pytest.raises(NotAllowed, match=r"another event loop.*each event loop"):
                await asyncio.to_thread(asyncio.run, _awaited(use, client, run))
        loop = asyncio.get_running_loop()
        # What the error advises: the call is handed to the loop of the client.
        handed = lambda: asyncio.run_coroutine_threadsafe(run.result(), loop).result()  # noqa: E731
        assert (await asyncio.to_thread(handed)).output == "Said."


async def _awaited(
    use: Callable[[Client, RunHandle], Awaitable[object]], client: Client, run: RunHandle
) -> object:
    return await use(client, run)
