"""A worker plugin that fills the disk for the store: while a file exists, no file may grow."""

import os
import resource
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from perdure.adapters.stores.blobs import VerifiedBlobStore
from perdure.adapters.stores.journal import SqlJournal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _limited(work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        full = Path(os.environ["FULL_DISK"]).exists()
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096 if full else hard, hard))
        try:
            return await work(*args, **kwargs)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    return run


VerifiedBlobStore.put = _limited(VerifiedBlobStore.put)  # type: ignore[method-assign]
SqlJournal.answer = _limited(SqlJournal.answer)  # type: ignore[method-assign]
