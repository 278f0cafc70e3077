"""Gives a client the key that its file holds now: keys end, and are renewed on disk."""

import asyncio
import os
import weakref
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from perdure.adapters.settings.secret_references import FILE, resolve_reference
from perdure.domain.foundation.errors import InvalidInput
from perdure.event_log import get_logger

LOOK_S = 5.0

_log = get_logger(__name__)


def keep_renewed(client: Client, reference: str | None) -> None:
    """Look at the file of a client's key every few seconds, as long as the client is in use.

    While the file is away or empty, as in the middle of a renewal, the client keeps its key.

    Args:
        client: connected in the running event loop.
        reference: of its key; only one to a file (`file:PATH`) is followed again.
    """
    if reference is not None and reference.startswith(FILE):
        looked = _Looked(weakref.ref(client), reference, asyncio.get_running_loop())
        looked.next()


@dataclass
class _Looked:
    """The file as it was last seen.

    Timers, and not a task: who uses a client does not know of it, and could not end one.
    """

    # A strong one would keep a client for ever that nobody uses any more.
    client: "weakref.ref[Client]"
    reference: str
    loop: asyncio.AbstractEventLoop
    seen: tuple[int, int, int] | None = None

    def next(self) -> None:
        """Look again after a while."""
        self.loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        client = self.client()
        if client is None:
            return
        state = _state(Path(self.reference.removeprefix(FILE)).expanduser())
        if state is not None and state != self.seen:
            self._renew(client, state)
        self.next()

    def _renew(self, client: Client, state: tuple[int, int, int]) -> None:
        try:
            key = resolve_reference("TEMPORAL_API_KEY", self.reference)
        except InvalidInput as error:
            _log.warning("temporal_key_not_renewed", why=error.message)
            return
        # Not before the key was read: a file that is half written must be looked at again.
        self.seen = state
        if key != client.api_key:
            client.api_key = key
            _log.info("temporal_key_renewed", reference=self.reference)


def _state(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written or replaced; links are followed."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    # Kubernetes swaps a link to a new folder: the new file may be as long and as old as the former.
    return found.st_ino, found.st_mtime_ns, found.st_size
