"""How interfaces write the audit trail: at once, but sparingly under a flood of requests."""

import hashlib
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Self

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.installation.access import ApiToken, Credentials
from perdure.domain.run.audit import (
    ABOUT_CHARACTERS,
    Action,
    AuditEntry,
    AuditStore,
    Outcome,
    settled,
    verb_entry,
)
from perdure.domain.run.messages import AnyMessage
from perdure.event_log import get_logger

# Equal refusals within a minute become one entry, and so do uses of a token within an hour.
REFUSAL_WINDOW_S = 60
USE_WINDOW_S = 3_600
CALLERS_KEPT = 64
OTHERS = "other addresses"
UNNAMED = "a program"

_log = get_logger(__name__)


class AuditTrail:
    """Writes entries; if the store is unavailable, an entry becomes a line in the log.

    A refused login costs its sender nothing, so not every one is written. Of equal ones in a minute
    only the first, second, fourth, eighth … are written, each with the count so far.
    """

    def __init__(self, store: AuditStore, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._window = -1
        self._counts: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._used: dict[str, int] = {}

    def use_store(self, store: AuditStore) -> Self:
        """The same trail with a newly opened store."""
        self._store = store
        return self

    async def note_message(self, run: str, message: AnyMessage) -> AuditEntry | None:
        entry = verb_entry(uuid.uuid4().hex, run, message, at=self._now())
        await self._put(entry)
        return entry

    async def note_answer(self, entry: AuditEntry | None, *, refused: str = "") -> None:
        if entry is not None:
            await self._put(settled(entry, at=self._now(), refused=refused))

    async def note_start(self, run: str | None, *, by: str, about: str, refused: str = "") -> None:
        outcome: Outcome = "refused" if refused else "allowed"
        told = f"{about}: {refused}"[:ABOUT_CHARACTERS] if refused else about
        await self._note("start", outcome, by or UNNAMED, told, run=run)

    async def note_token_change(self, action: Action, token: ApiToken, *, by: str) -> None:
        """Record that somebody at this machine made, rotated or revoked a token."""
        about = f"token {token.name!r} ({token.id}): {' '.join(token.scopes)}"
        await self._note(action, "allowed", by, about)

    async def note_decision(self, action: Action, about: str, *, by: str, run: str | None) -> None:
        """Record a person's decision that affects later runs, such as on a skill or a schedule."""
        await self._note(action, "allowed", by, about, run=run)

    async def note_token_use(self, token: ApiToken, *, interface: str, address: str) -> None:
        """Record that a token opened an interface; once an hour for each address."""
        hour = int(self._now().timestamp()) // USE_WINDOW_S
        place = f"{token.id} {interface} {address}"
        if self._used.get(place) == hour:
            return
        if len(self._used) >= CALLERS_KEPT:
            self._used = {known: at for known, at in self._used.items() if at == hour}
        # The map stays bounded: further addresses of this hour share one entry.
        if len(self._used) >= CALLERS_KEPT:
            place = f"{token.id} {interface} {OTHERS}"
            if self._used.get(place) == hour:
                return
        self._used[place] = hour
        about = f"{interface} from {place.split(' ', 2)[2]}"
        # The same id in every process, so that the store makes one entry of them.
        await self._note("token_used", "allowed", who_of(token), about, key=f"{place} {hour}")

    async def note_sign_out(self, token: ApiToken, *, interface: str, address: str) -> None:
        """Record that somebody ended a session of a token."""
        await self._note("signed_out", "allowed", who_of(token), f"{interface} from {address}")

    async def note_refused_login(
        self, authorization: str | None, *, interface: str, address: str
    ) -> None:
        """Record a request without a token that opens the interface."""
        credentials = Credentials.read((authorization or "").partition(" ")[2].strip())
        shown = f"token {credentials.id}" if credentials else "no token"
        if authorization and not credentials:
            shown = "what is no token"
        await self._refused("login", shown, f"{interface} from ", address)

    async def note_refused_access(self, token: ApiToken, *, what: str) -> None:
        """Record that a token asked for something that it may not have."""
        await self._refused("access", who_of(token), "", what[:200])

    async def _refused(self, action: Action, who: str, before: str, rest: str) -> None:
        # A refused login costs its sender nothing. Only the first, second, fourth, eighth … of
        # equal ones in a minute is written, so that a flood cannot fill the store.
        minute = int(self._now().timestamp()) // REFUSAL_WINDOW_S
        if minute != self._window:
            self._window, self._counts, self._written = minute, {}, {}
        key = f"{action} {who} {before}{rest}"
        if key not in self._counts and len(self._counts) >= CALLERS_KEPT:
            who, rest = "many", OTHERS
            key = f"{action} {before}{rest}"
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count & (count - 1):
            return
        # The store adds up the entries of one id, so each brings only what came since the last one.
        more, self._written[key] = count - self._written.get(key, 0), count
        told = f"{before}{rest}"
        await self._note(action, "refused", who, told, key=f"{key} {minute}", count=more)

    async def _note(
        self,
        action: Action,
        outcome: Outcome,
        who: str,
        about: str,
        *,
        key: str | None = None,
        count: int = 1,
        run: str | None = None,
    ) -> None:
        now = self._now()
        told = f"{action} {who} {about} {run} {now.isoformat()}" if key is None else key
        entry = AuditEntry(
            # Words of a command line may hold bytes that are no text, which plain encoding refuses.
            id=hashlib.sha256(told.encode(errors="replace")).hexdigest()[:32],
            at=now,
            action=action,
            outcome=outcome,
            who=who,
            run=run,
            about=about,
            count=count,
            last_at=now,
        )
        await self._put(entry)

    async def _put(self, entry: AuditEntry) -> None:
        # An unavailable store must not delay what a person asked of a run.
        try:
            await self._store.put(entry)
        except PerdureError as error:
            told = entry.model_dump(mode="json", exclude={"id"})
            _log.warning("audit_not_stored", why=error.message, entry=told)


def who_of(token: ApiToken) -> str:
    """The name under which the audit trail shows the owner of a token."""
    return f"{token.name} ({token.id})"
