"""The worker: polls the queues of its installation and of every registered workspace.

Start it as `python -P -m perdure.worker`. It drains at the first SIGTERM or SIGINT, and ends at the
second. A workspace is served within a second of its first use, and as long as it is in use.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import AsyncExitStack, contextmanager
from functools import partial

from perdure.event_log import get_logger

# isort: split

from perdure.adapters.logging.process_logs import log_process, told_at_the_end
from perdure.adapters.sandbox.identity import warn_of_root
from perdure.adapters.settings.variables import Settings, variable
from perdure.adapters.settings.working_folder import working_folder
from perdure.adapters.stores.waiting_stores import once_there
from perdure.adapters.temporal.client import connect
from perdure.composition.client_services import loops_of
from perdure.composition.parts import open_parts
from perdure.domain.foundation.errors import PerdureError, ServiceUnavailable, StoreAway
from perdure.fleet.fleet import Fleet
from perdure.fleet.forked_processes import end_forked_processes, handle_no_signals_in_forks
from perdure.fleet.worker_deployment import own_build
from perdure.fleet.worker_ends import end_in_any_case, no_longer_served, nobody_told
from perdure.gateway.types import NAMED_OUTAGE_S
from perdure.local_services.processes import ENDING, share_heaps
from perdure.local_services.ready_file import announce_ready, say_what_is_polled, withdraw_ready
from perdure.local_services.register_search_attributes import register_search_attributes

REGISTRY_POLL_S = 1.0
ENDING_S = 10.0
_log = get_logger(__name__)
Activity = Callable[..., object]


async def run_worker(
    settings: Settings, stop: asyncio.Event, *, broken: Callable[[], None] = nobody_told
) -> None:
    """Poll until `stop` is set, then drain: fetch nothing more, finish what is in flight.

    Steps that take longer than the grace period go to other workers. If the store is away at the
    start, the worker waits for it.

    Args:
        settings: of the installation.
        stop: ends the serving.
        broken: called if the serving ends unasked, before what is left is drained.

    Raises:
        ServiceUnavailable: the serving ended, and nobody had asked it to.
    """
    # First: in a container, the worker before left a file with the very same process id.
    withdraw_ready(settings)
    try:
        await _serve(settings, stop, broken)
    except StoreAway:
        if not stop.is_set():  # otherwise it was told to end while it waited
            raise
    except PerdureError:
        raise
    except (asyncio.CancelledError, Exception) as error:
        mine = asyncio.current_task()
        if stop.is_set():
            raise
        # The SDK cancels the task that started a worker which ended; whoever awaits this must not
        # take it for a cancellation of its own.
        if mine is not None and isinstance(error, asyncio.CancelledError):
            mine.uncancel()
        _log.error("worker_ended", why=str(error) or type(error).__name__, exc_info=error)
        raise no_longer_served("The worker") from error


async def _serve(settings: Settings, stop: asyncio.Event, broken: Callable[[], None]) -> None:
    async with AsyncExitStack() as stack:
        opened = partial(open_parts, settings, plugins=True)
        parts = await once_there(lambda: stack.enter_async_context(opened()), stop)
        client = await connect(
            settings,
            fallback=f"127.0.0.1:{settings.temporal_port}",
            blobs=parts.stores.blobs,
            telemetry=parts.telemetry,
            # What cannot be opened is passed on, as raising would fail each workflow task.
            tolerant=True,
            patience_s=NAMED_OUTAGE_S,
        )
        await register_search_attributes(client)
        parts.loop_tools.serve(loops_of(parts))
        installation = await once_there(parts.stores.records.installation, stop)
        build = await own_build(client, settings.deployment)
        fleet = Fleet(client, parts, installation, build)

        async def polling(queues: list[str]) -> None:
            if build is not None:
                await build.begin()
                stack.enter_context(ending_when(build.wait_until_drained(), stop))
            warn_of_root()
            say_what_is_polled(client, queues, default_model=parts.default_model)
            await once_there(lambda: asyncio.to_thread(announce_ready, settings), stop)

        workers = [fleet.loops(), fleet.tasks(settings.task_queue), *fleet.steps()]
        await fleet.serve(workers, stop, polling=polling, broken=broken)


@contextmanager
def ending_when(over: Coroutine[None, None, None], stop: asyncio.Event) -> Generator[None]:
    """Set `stop` when a coroutine ends; leaving the context cancels it."""

    async def ends() -> None:
        await over
        stop.set()

    waiting = asyncio.create_task(ends())
    try:
        yield
    finally:
        waiting.cancel()


def stop_on_signals(stop: asyncio.Event) -> None:
    """Drain at the first signal, and end at once at the second; the server retries open steps."""

    def told(number: signal.Signals) -> None:
        if stop.is_set():
            end_forked_processes()
            os._exit(128 + number)
        stop.set()
        _log.info("worker_drains", signal=number.name)

    for number in ENDING:
        asyncio.get_running_loop().add_signal_handler(number, told, number)
    handle_no_signals_in_forks(ENDING)


async def _main() -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    # A worker of a supervisor gets its settings from it, not from the current folder.
    own = variable("PERDURE_READY_FILE") is None
    settings = Settings.found(folder=working_folder() if own else None)
    log_process(settings)
    await run_process(settings, stop)


async def run_process(settings: Settings, stop: asyncio.Event) -> None:
    """`run_worker` in a process of its own, which ends with it in any case."""

    def broken() -> None:
        _log.error("worker_ends_unasked")
        end_in_any_case(settings.shutdown_grace_s + ENDING_S)

    try:
        await run_worker(settings, stop, broken=broken)
    finally:
        end_forked_processes()


def main() -> None:
    """Run the worker process; it ends with `os._exit`, as the SDK can crash at a normal exit."""
    # First: each thread that starts before it gets a heap of its own.
    share_heaps()
    code = 0
    try:
        asyncio.run(_main())
    except PerdureError as error:
        told_at_the_end(error, as_json=variable("PERDURE_LOG_FORMAT") == "json")
        code = error.exit_code
    except BaseException as error:  # also `SystemExit(0)` of foreign code, which must not pass
        _log.critical("worker_ended", why=repr(error), exc_info=error)
        code = ServiceUnavailable.exit_code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
