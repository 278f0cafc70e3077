"""Stores that are tried again while they are away, in steps that can wait.

A step with heartbeats may hold a paid reply or the only record of an effect. Giving up would lose
it, and the failed attempt would look like the provider's. All other steps fail at once.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import wraps
from typing import TypeVar, cast

from temporalio import activity

from perdure.adapters.files.disk import disk_errors
from perdure.adapters.stores.open_stores import Stores
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.foundation.retry_policies import PATIENCE, Patience, count_as_store_time
from perdure.event_log import get_logger

FIRST_PAUSE_S = 0.5
# After an outage, every waiting step continues within this time.
LONGEST_PAUSE_S = 5.0

R = TypeVar("R")
T = TypeVar("T")
Entering = Callable[..., AbstractAsyncContextManager[object]]
_log = get_logger(__name__)


def patient(stores: Stores) -> Stores:
    """The same stores, for a worker: each operation waits for its store if the step can wait."""
    return replace(
        stores,
        blobs=_patient(stores.blobs),
        transcripts=_patient(stores.transcripts),
        journal=_patient(stores.journal),
        records=_patient(stores.records),
        verdicts=_patient(stores.verdicts),
        memory=_patient(stores.memory),
        made_tools=_patient(stores.made_tools),
        sessions=_patient(stores.sessions),
        projects=_patient(stores.projects),
        artifacts=_patient(stores.artifacts),
        todos=_patient(stores.todos),
    )


async def in_store(operation: Callable[[], Awaitable[R]]) -> R:
    """Run a store operation, and wait until the store answers. None of it counts as active time.

    This includes a first try that succeeds: it may have waited long for a lock. Raises what
    `patiently` raises.
    """
    with count_as_store_time(asyncio.get_running_loop().time):
        return await patiently(operation)


async def patiently(operation: Callable[[], Awaitable[R]]) -> R:
    """Run an operation, and wait and repeat it while what it needs is away.

    The operation must be safe to repeat. All operations of a step are, since the server repeats
    whole steps.

    Raises:
        StoreAway: the step cannot wait, or the grace period of its worker is over.
    """
    patience = PATIENCE.get()
    if patience is None or not patience.can_wait:
        return await operation()
    try:
        return await operation()
    except StoreAway as error:
        if _must_go():
            raise
        _log.warning("store_away", why=str(error))
        # The tries count as waiting too: each may block on a lock or a connection.
        with patience.wait(str(error), asyncio.get_running_loop().time):
            outcome = await _once_back(operation, patience)
        _log.info("store_there", tried=patience.tried)
        return outcome


async def _once_back(operation: Callable[[], Awaitable[R]], patience: Patience) -> R:
    pause = FIRST_PAUSE_S
    while True:
        await asyncio.sleep(pause)
        try:
            return await operation()
        except StoreAway as error:
            if _must_go():
                raise
            patience.note_failure(str(error))
        pause = min(2 * pause, LONGEST_PAUSE_S)


def _must_go() -> bool:
    """Whether the grace period of the worker is over; until then the store may come back."""
    details = activity.cancellation_details()
    return details is not None and details.worker_shutdown


async def once_there(operation: Callable[[], Awaitable[R]], stop: asyncio.Event) -> R:
    """Run an operation that a starting process needs, and repeat it until the store is there.

    Raises:
        StoreAway: the process was told to stop while the store was away.
    """
    pause = FIRST_PAUSE_S
    while True:
        try:
            outcome = await operation()
        except StoreAway as error:
            if stop.is_set():
                raise
            _log.warning("store_away", why=str(error), next_try_s=pause)
        else:
            if pause != FIRST_PAUSE_S:
                _log.info("store_there")
            return outcome
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def patient_disk(folders: T) -> T:
    """The same working folders, for a worker: operations wait and repeat while the disk is full.

    They are safe to repeat, since the server repeats whole steps.
    """
    # The proxy has the same methods as the folders.
    return cast(T, _PatientDisk(folders))


class _PatientDisk:
    """A proxy of working folders: coroutines and async contexts wait, all else passes through."""

    def __init__(self, folders: object) -> None:
        self._folders = folders

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._folders, name)
        # `asynccontextmanager` returns a plain function; only this attribute shows the generator.
        if inspect.isasyncgenfunction(getattr(found, "__wrapped__", None)):
            return _entered_patiently(cast(Entering, found))
        if not inspect.iscoroutinefunction(found):
            return found

        async def once(*args: object, **kwargs: object) -> object:
            with disk_errors():
                return await found(*args, **kwargs)

        @wraps(found)
        async def waiting(*args: object, **kwargs: object) -> object:
            return await patiently(lambda: once(*args, **kwargs))

        return waiting


def _entered_patiently(entering: Entering) -> Entering:
    @asynccontextmanager
    async def waiting(*args: object, **kwargs: object) -> AsyncGenerator[object]:
        async with AsyncExitStack() as stack:

            async def enter() -> object:
                with disk_errors():
                    return await stack.enter_async_context(entering(*args, **kwargs))

            # Only entering is repeated: the block may have had effects when it fails.
            yield await patiently(enter)

    return waiting


class _Patient:
    """A proxy of a store: coroutine methods wait, all else passes through."""

    def __init__(self, store: object) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def waiting(*args: object, **kwargs: object) -> object:
            return await in_store(lambda: found(*args, **kwargs))

        # Found here from now on: a turn asks its stores a dozen times.
        self.__dict__[name] = waiting
        return waiting


def _patient(store: T) -> T:
    # The proxy has the same methods as the store.
    return cast(T, _Patient(store))
