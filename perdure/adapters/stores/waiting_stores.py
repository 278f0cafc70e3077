"""Stores that are asked again while they are away, in steps that can wait with what they have.

A step that beats holds a paid reply or the only word of an effect: giving up would lose it, and a
failed attempt would look like the provider's. Everything else fails at once and says why.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import wraps
from typing import TypeVar, cast

import structlog
from temporalio import activity

from perdure.adapters.files.disk import disk_errors
from perdure.adapters.stores.open_stores import Stores
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.foundation.retry_policies import PATIENCE, Patience, no_work

FIRST_PAUSE_S = 0.5
# After an outage every waiting step goes on within this time.
LONGEST_PAUSE_S = 5.0

R = TypeVar("R")
T = TypeVar("T")
Entering = Callable[..., AbstractAsyncContextManager[object]]
_log = structlog.get_logger(__name__)


def patient(stores: Stores) -> Stores:
    """The same stores, for a worker: each operation waits for its store where the step can."""
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
    """Run a store operation, waiting until the store answers. None of this counts as active time.

    The first try counts too: it may stand before a lock for as long as somebody holds it, and
    succeed. Raises what `patiently` raises.
    """
    with no_work(asyncio.get_running_loop().time):
        return await patiently(operation)


async def patiently(operation: Callable[[], Awaitable[R]]) -> R:
    """The outcome of an operation, once what it needs is there; until then the step waits.

    Only operations that may be made twice are given here, which all of a step's are: the server
    repeats whole steps.

    Raises:
        StoreAway: the step cannot wait, or the grace of its worker is over.
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
        # The tries are time of the wait too: each may take as long as a lock or a connection does.
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
            patience.in_vain(str(error))
        pause = min(2 * pause, LONGEST_PAUSE_S)


def _must_go() -> bool:
    """Whether the worker's grace is over: while it drains, the store may still come back."""
    details = activity.cancellation_details()
    return details is not None and details.worker_shutdown


async def once_there(operation: Callable[[], Awaitable[R]], stop: asyncio.Event) -> R:
    """The outcome of what a starting process needs of its store, once the store is there.

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
    """The same working folders, for a worker: what finds no room on the disk is done again.

    A step repeats whatever it does with them, and so does this.
    """
    # It has the methods of what it stands before, and no others.
    return cast(T, _PatientDisk(folders))


class _PatientDisk:
    """Stands before working folders; what is neither a coroutine nor a context passes through."""

    def __init__(self, folders: object) -> None:
        self._folders = folders

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._folders, name)
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

            yield await patiently(enter)

    return waiting


class _Patient:
    """Stands before a store; what is no coroutine passes through."""

    def __init__(self, store: object) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def waiting(*args: object, **kwargs: object) -> object:
            return await in_store(lambda: found(*args, **kwargs))

        return waiting


def _patient(store: T) -> T:
    # It has the methods of the store that it stands before, and no others.
    return cast(T, _Patient(store))
