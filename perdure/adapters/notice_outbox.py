"""Delivers notices until a channel accepts them; each is stored first, so no crash loses one.

Every worker with a channel looks for due notices. A notice is tried as soon as its gate opens, then
with growing pauses for days. After that it is dead, and stays in the list, from which a person can
have it sent again. Once its gate is answered or its run has ended it is dropped instead: nobody is
asked any more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime

from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.notifiers import notifier
from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.domain.foundation.errors import PerdureError
from perdure.domain.ports import Notifier, RecordStore
from perdure.domain.run.gates import Gate
from perdure.domain.run.notices import (
    LEASE,
    Event,
    Notice,
    NoticeStore,
    ReceiverBusy,
    delivered,
    dropped,
    failed,
    new_notice,
    still_asked,
)
from perdure.event_log import get_logger

LOOKS_EVERY_S = 2.0
AT_ONCE = 8
ENDED = "The run has ended, so nobody is asked any more."
ANSWERED = "The gate is closed, so nobody is asked any more."

_log = get_logger(__name__)
OpenGates = Callable[[str], Awaitable[Collection[Gate] | None]]


@dataclass(frozen=True)
class NoticeOutbox:
    """A `Notifier` that stores each notice and retries it.

    Gates that nobody has to answer any more are not announced again. Notices without a gate are,
    such as that a run was refused.

    Args:
        store: where notices are kept.
        channel: delivers a notice.
        ended: whether a run has ended.
        waiting: the open gates of a run; None if it cannot be asked.
        now: the clock.
    """

    store: NoticeStore
    channel: Notifier
    _: KW_ONLY
    ended: Callable[[str], Awaitable[bool]]
    waiting: OpenGates
    now: Callable[[], datetime] = utc_now

    async def notify(self, event: Event) -> bool:
        """Store a notice and try it once; returns whether a channel accepted it.

        Raises:
            StoreError: it cannot be stored.
        """
        notice = new_notice(event, now=self.now())
        if not await self.store.put(notice):
            # The step was repeated: its first attempt may have delivered the notice.
            known = await self.store.notice(notice.id)
            return known is not None and known.state == "delivered"
        return await self._attempt(notice, again=False)

    async def serve(self, stop: asyncio.Event) -> None:
        """Deliver due notices until `stop` is set; while the store is away, retry."""
        while not stop.is_set():
            try:
                await self.deliver_due()
            except PerdureError as error:
                _log.debug("notices_not_looked_at", why=error.message)
            except Exception:
                # No error may end this loop: people must still be notified.
                _log.exception("notices_failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOKS_EVERY_S)

    async def deliver_due(self) -> int:
        """Try every due notice; returns how many a channel accepted."""
        due = await self.store.due(now=self.now(), limit=AT_ONCE)
        return sum(await asyncio.gather(*(self._attempt(notice, again=True) for notice in due)))

    async def _attempt(self, notice: Notice, *, again: bool) -> bool:
        now = self.now()
        # The claim keeps two workers from sending the same notice, and expires if one dies.
        if not await self.store.claim(notice, until=now + LEASE):
            return False
        claimed = notice.model_copy(update={"attempts": notice.attempts + 1})
        moot = await self._moot(claimed) if again else None
        settled = dropped(claimed, moot, now=self.now()) if moot else await self._tried(claimed)
        await self.store.settle(settled)
        if settled.state == "dead":
            _log.warning("notice_dead", id=settled.id, run=settled.run, why=settled.problem)
        if settled.state == "dropped":
            _log.info("notice_dropped", id=settled.id, run=settled.run, failed=notice.problem)
        return settled.state == "delivered"

    async def _moot(self, notice: Notice) -> str | None:
        """Why nobody has to be told of this any more."""
        if not notice.gate:
            return None
        if await self.ended(notice.run):
            return ENDED
        gates = await self.waiting(notice.run)
        return None if gates is None or still_asked(notice, gates) else ANSWERED

    async def _tried(self, notice: Notice) -> Notice:
        try:
            took = await self.channel.notify(notice.event)
        except ReceiverBusy as error:
            return failed(notice, error.message, now=self.now(), wait_s=error.wait_s)
        except PerdureError as error:
            return failed(notice, error.message, now=self.now())
        except Exception as error:
            why = without_secrets(f"{type(error).__name__}: {error}")
            return failed(notice, why, now=self.now())
        if took:
            return delivered(notice, now=self.now())
        return failed(notice, "No channel is configured.", now=self.now())


def outbox_of(
    settings: Settings,
    store: NoticeStore,
    records: RecordStore,
    *,
    waiting: OpenGates,
) -> NoticeOutbox | None:
    """The outbox of the channels that the settings name; None if they name none.

    Raises:
        InvalidInput: an address, a secret or a command cannot be read.
    """
    channel = notifier(settings)
    if not settings.tells_people:
        return None

    async def has_ended(run: str) -> bool:
        row = await records.run(run)
        return row is None or row.ended_at is not None

    return NoticeOutbox(store, channel, ended=has_ended, waiting=waiting)
