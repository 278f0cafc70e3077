"""Notices to people, from the moment a gate needs one until a channel took it, or none did."""

import hashlib
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.run.gates import Gate

# As Standard Webhooks advises: soon at first, then for days.
PAUSES_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
MOST_ATTEMPTS = len(PAUSES_S) + 1
# Who took a notice and died before saying so: another worker takes it after this time.
LEASE = timedelta(seconds=45)

NoticeState = Literal["waiting", "delivered", "dead", "dropped"]
Event = dict[str, JsonValue]


class Notice(FrozenModel):
    """One notice and what became of it.

    Attributes:
        id: the same for a repeat, and for a receiver the `webhook-id`.
        event: what is sent.
        attempts: how often it was tried; one that is under way counts.
        due_at: when it is tried next, where it waits.
        problem: why the last attempt failed.
        ended_at: when a channel took it, or its attempts ended.
    """

    id: str
    run: str
    gate: str
    event: Event
    state: NoticeState = "waiting"
    attempts: int = 0
    due_at: datetime
    problem: str | None = None
    made_at: datetime
    ended_at: datetime | None = None


class NoticePlace(NamedTuple):
    """Where a notice stands in the list: the newest first, of equals by id."""

    made_at: datetime
    id: str


class NoticeStore(Protocol):
    """Notices by id; several workers may deliver from it."""

    async def put(self, notice: Notice) -> bool:
        """Keep a new notice; False where it is known."""
        ...

    async def notice(self, id: str) -> Notice | None:
        """One notice by its id."""
        ...

    async def notices(
        self,
        state: NoticeState | None = None,
        *,
        limit: int = 100,
        after: NoticePlace | None = None,
    ) -> list[Notice]:
        """List notices, the newest first; those behind a place if one is given."""
        ...

    async def counts(self) -> dict[NoticeState, int]:
        """How many there are in each state."""
        ...

    async def due(self, *, now: datetime, limit: int) -> list[Notice]:
        """The waiting notices whose time has come."""
        ...

    async def claim(self, notice: Notice, *, until: datetime) -> bool:
        """Count an attempt and keep others off until then; False where somebody was faster."""
        ...

    async def settle(self, notice: Notice) -> None:
        """Write down what became of an attempt; unless it was taken, only of the newest one."""
        ...

    async def renew(self, notice: Notice, *, seen: Notice) -> bool:
        """Let a notice wait again; False if it is no longer as it was seen."""
        ...

    async def forget(self, *, before: datetime) -> int:
        """Drop what ended before a moment, and say how much that was."""
        ...


def key_of(event: Event) -> str:
    """The idempotency key of a notice: a reminder is another one.

    Starts that a schedule refuses in a month for the same reason are one notice.
    """
    if month := event.get("month"):
        why = hashlib.sha256(str(event.get("prompt", "")).encode()).hexdigest()[:16]
        return f"{event.get('schedule', '')}/{month}/{why}"
    words = [str(event.get(name, "")) for name in ("run", "gate", "reminder")]
    # After a reset the run counts its gates anew: another question is then again called `g1`.
    opened_at = event.get("opened_at")
    return "/".join([*words, str(opened_at)] if opened_at is not None else words)


def id_of(key: str) -> str:
    """The id of a notice, which has no dots and no words."""
    return f"msg_{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def new_notice(event: Event, *, now: datetime) -> Notice:
    """A notice that waits for its first attempt."""
    run, gate = str(event.get("run", "")), str(event.get("gate", ""))
    return Notice(id=id_of(key_of(event)), run=run, gate=gate, event=event, due_at=now, made_at=now)


def delivered(notice: Notice, *, now: datetime) -> Notice:
    """The notice once a channel took it."""
    return notice.model_copy(update={"state": "delivered", "problem": None, "ended_at": now})


class ReceiverBusy(ServiceUnavailable):
    """The receiver of a notice asks for time, in seconds."""

    def __init__(self, message: str, *, cure: str, wait_s: float) -> None:
        super().__init__(message, cure=cure)
        self.wait_s = wait_s


def failed(notice: Notice, problem: str, *, now: datetime, wait_s: float = 0.0) -> Notice:
    """The notice after an attempt that failed: it waits longer each time, and then is dead.

    `wait_s` is what the receiver asks for. It makes a pause longer, up to the longest.
    """
    if notice.attempts >= MOST_ATTEMPTS:
        return notice.model_copy(update={"state": "dead", "problem": problem, "ended_at": now})
    pause_s = max(PAUSES_S[max(0, notice.attempts - 1)], min(wait_s, PAUSES_S[-1]))
    due_at = now + timedelta(seconds=pause_s)
    return notice.model_copy(update={"problem": problem, "due_at": due_at})


def still_asked(notice: Notice, gates: Collection[Gate]) -> bool:
    """Whether the gate of a notice is among the open gates of its run."""
    # After a reset, another question may have its name.
    opened_at = notice.event.get("opened_at")
    at = None if opened_at is None else datetime.fromisoformat(str(opened_at))
    return any(gate.name == notice.gate and at in {None, gate.opened_at} for gate in gates)


def dropped(notice: Notice, problem: str, *, now: datetime) -> Notice:
    """The notice once nobody needs to be told any more, though no channel took it."""
    return notice.model_copy(update={"state": "dropped", "problem": problem, "ended_at": now})


def sent_again(notice: Notice, *, now: datetime) -> Notice:
    """The notice as if it were new."""
    # Attempts begin anew too: a notice that used all of them would die at its next failure.
    fresh = {"state": "waiting", "attempts": 0, "due_at": now, "problem": None, "ended_at": None}
    return notice.model_copy(update=fresh)
