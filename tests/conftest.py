"""Fixtures for tests that need a whole installation: `server`, `site` (with a worker), `bare`."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest
import structlog
from _pytest.tmpdir import TempPathFactory
from hypothesis import settings
from installation import IN_VAIN, Installation, dev_server, installation
from leftovers import MARK, end_leftovers, mark_children
from promised import promised
from temporalio.testing import WorkflowEnvironment

SERVERS = frozenset({"server", "s3_server", "postgresql_server"})
STARTERS = (  # of git, sandboxes, servers of tools, bounded processes and whole commands
    *(f"tests/adapters/{folder}/" for folder in ("bounded_process", "git", "mcp", "sandbox")),
    *(f"tests/interfaces/cli/test_{name}.py" for name in ("odd_processes", "no_services")),
    "tests/local_services/test_plugin_trial.py",
)
SELDOM = ("long", "slow", "browser", "model")
# A limit is there to end a test that hangs, however busy the machine is.
CLEARED_S = 60  # the most that a test may take to end what it started
PATIENT, PATIENCE_S = ("long", "slow", "browser", "model"), int(os.environ.get("PATIENCE_S", 900))


# Pictures and colours are tested as on any terminal, whichever this one is.
os.environ["TERM"] = "xterm-256color"
for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
    os.environ.pop(name, None)

# A test never fails for being slow, and a busy machine makes any example slow.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before `-m` selects by the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Of the tests that need a server or programs the quick suite runs one for each promise."""
    costly = [item for item in items if _is_costly(item)]
    brief = [item for item in costly if not any(map(item.get_closest_marker, SELDOM))]
    quick = promised(item.nodeid for item in sorted(brief, key=_place))  # whatever shuffled them
    for item in costly:
        if item.nodeid not in quick:
            item.add_marker(pytest.mark.long)
    for item in items:
        patient = any(map(item.get_closest_marker, PATIENT))
        if patient and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PATIENCE_S))
    yield  # to what shuffles them
    # The longest begin first, else all but one worker would wait for the last of them.
    items.sort(key=_limit_s, reverse=True)


def _limit_s(item: pytest.Item) -> float:
    """The seconds that a test has if it says that it is among the longest, else 0."""
    limit = item.get_closest_marker("timeout")
    return limit.args[0] if limit and limit.args and limit.args[0] > PATIENCE_S else 0


def _is_costly(item: pytest.Item) -> bool:
    servers = SERVERS.intersection(getattr(item, "fixturenames", ()))
    return bool(servers) or item.nodeid.startswith(STARTERS)


def _place(item: pytest.Item) -> tuple[str, int, str]:
    path, line, _ = item.location
    return path, line or 0, item.nodeid


@pytest.hookimpl(tryfirst=True)  # before any fixture begins
def pytest_runtest_setup() -> None:
    """Begin no test after `TESTS_UNTIL` (seconds since 1970), for a run that has to end in time."""
    if time.time() > float(os.environ.get("TESTS_UNTIL") or "inf"):
        pytest.skip("no time left")


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was collected: it stays to the end.

    With thousands of tests a full round takes over a second, and a workflow task in whose thread it
    happens to run is taken for a deadlock, for which the SDK allows two seconds.
    """
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Mark what tests start, before the first of them; let SIGTERM end the tests as Ctrl-C does."""
    if not hasattr(config, "workerinput"):  # those inherit it
        mark_children()
        # Else a run that is ended from outside (by a time limit, say) leaves servers behind.
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around those of plugins, which fail too
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure that cannot be shown fails its test alone, where pytest would end all tests.

    Seen: a source that could not be parsed, as CPython 3.11.7 cannot in two threads at once.
    """
    try:
        return (yield)
    except Exception as error:
        shown = call.excinfo.value if call.excinfo else error
        call.excinfo = None
        report = pytest.TestReport.from_item_and_call(item, call)
        report.outcome, report.longrepr = "failed", "".join(traceback.format_exception(shown))
        return report


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """End a test where it fails: one that its time limit stops would go on beside all later ones.

    The limit is raised in the loop, which knows nothing of it, and all tests have the same loop.
    """
    try:
        return (yield)
    except pytest.fail.Exception:
        with contextlib.suppress(RuntimeError):  # there is no loop: the test had none
            _end_in(asyncio.get_event_loop(), pyfuncitem)
        raise


def _end_in(loop: asyncio.AbstractEventLoop, item: pytest.Function) -> None:
    left = {one for one in asyncio.all_tasks(loop) if _is_test(one, item)}
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=CLEARED_S))


def _is_test(task: asyncio.Task[object], item: pytest.Function) -> bool:
    return getattr(task.get_coro(), "__qualname__", None) == item.function.__qualname__


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Nothing that a test started outlives the tests."""
    yield
    if hasattr(session.config, "workerinput"):
        return  # the process that started this one looks after all have ended
    folders: TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    left = end_leftovers(os.environ[MARK], f"{folders.getbasetemp()}{os.sep}")
    if left:
        told = "\n".join(f"    {one}" for one in left)
        sys.stderr.write(f"\nprocesses that tests left running, killed now:\n{told}\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def _log_as_a_program_has_it() -> None:
    """No test sees the log as a command set it up that ran in this process before."""
    structlog.reset_defaults()


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """One dev server per test process."""
    async with dev_server() as environment:
        yield environment


@pytest.fixture
async def bare(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation without workers; a test starts what it needs."""
    address = server.client.service_client.config.target_host
    # A worker inside a test process that stands for seconds is not gone.
    async with installation(tmp_path / "home", address, heartbeat_s=10.0) as made:
        yield made


@pytest.fixture
async def unmanned(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation that never has a worker; who asks for one waits only a moment."""
    address = server.client.service_client.config.target_host
    async with installation(tmp_path / "home", address, waits=IN_VAIN) as made:
        yield made


@pytest.fixture
async def site(bare: Installation) -> AsyncIterator[Installation]:
    """An installation with one worker in this process."""
    async with bare.worker():
        yield bare
