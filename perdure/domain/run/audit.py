"""The audit trail: what was asked of runs and tokens, by whom, when, and whether it was allowed.

What a run is asked is written down before it is sent, and once more when the run has answered: an
entry that stays `asked` belongs to an interface that died between the two.
"""

from datetime import datetime
from typing import Literal, Protocol

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.run.messages import VERB_OF, Amend, Answer, AnyMessage, Stop, Verb

Action = Literal[
    "login", "signed_out", "token_used", "token_made", "token_rotated", "token_revoked", "access",
    "library_approved", "library_rejected", "library_forgotten", "schedule_created",
    "schedule_changed", "schedule_paused", "schedule_resumed", "schedule_triggered",
    "schedule_deleted", "experiment_started", "experiment_paused", "experiment_resumed",
    "experiment_stopped", "experiment_extended", "experiment_deleted", "run_erased", "run_repaired",
    "collected", "collection_scheduled", "start", "notice_resent", "keys_rewrapped", "key_retired",
    Verb,
]  # fmt: skip
Outcome = Literal["asked", "allowed", "refused"]
ABOUT_CHARACTERS = 500


class AuditEntry(FrozenModel):
    """One line: `at` is when it happened first, `last_at` last, `count` how often at least.

    `about` says what it was about and why it was refused; words of a person or a model are not in
    it. `action` may be one that only a later version knows.
    """

    id: str
    at: datetime
    action: Action | str
    outcome: Outcome
    who: str
    run: str | None = None
    about: str = ""
    count: int = 1
    last_at: datetime


class AuditPlace(FrozenModel):
    """Where a page begins: in the trail as it stood at `mark`, behind an entry if one is named.

    Without the mark, an entry that goes on while somebody turns pages would move past the reader.
    """

    mark: int
    last_at: datetime | None = None
    id: str = ""

    def behind(self, entry: AuditEntry) -> "AuditPlace":
        """The place of the page after the one that ends with an entry."""
        return self.model_copy(update={"last_at": entry.last_at, "id": entry.id})


class AuditFilter(FrozenModel):
    """Which entries are wanted; the newest come first."""

    action: Action | None = None
    outcome: Outcome | None = None
    run: str | None = None
    who: str | None = None
    since: datetime | None = None
    limit: int = 100
    place: AuditPlace | None = None


class AuditStore(Protocol):
    """Entries, the newest first; what is kept is never changed."""

    async def put(self, entry: AuditEntry) -> None:
        """Append to an entry: its last outcome, time and words are told, and counts add."""
        ...

    async def entries(self, wanted: AuditFilter) -> list[AuditEntry]:
        """List the entries that match a filter."""
        ...

    async def mark(self) -> int:
        """How the trail stands now, for an `AuditPlace`."""
        ...

    async def forget(self, *, before: datetime) -> int:
        """Drop what happened last before a moment, and say how much that was."""
        ...


class VerbAudit(Protocol):
    """Writes down what a run is asked, and who started it."""

    async def note_start(self, run: str | None, *, by: str, about: str, refused: str = "") -> None:
        """A run was started, or was refused with these words."""
        ...

    async def note_message(self, run: str, message: AnyMessage) -> AuditEntry | None:
        """Record a command before it is sent."""
        ...

    async def note_answer(self, entry: AuditEntry | None, *, refused: str = "") -> None:
        """The run took it, or refused it with these words."""
        ...


def verb_entry(id: str, run: str, message: AnyMessage, *, at: datetime) -> AuditEntry:
    """What is written before a verb is sent."""
    return AuditEntry(
        id=id,
        at=at,
        action=VERB_OF[type(message)],
        outcome="asked",
        who=message.by,
        run=run,
        about=_about(message)[:ABOUT_CHARACTERS],
        last_at=at,
    )


def settled(entry: AuditEntry, *, at: datetime, refused: str = "") -> AuditEntry:
    """The entry once the run has answered; counts add, so this one counts nothing more."""
    about = f"{entry.about}: {refused}" if refused and entry.about else refused or entry.about
    outcome: Outcome = "refused" if refused else "allowed"
    change: dict[str, object] = {"outcome": outcome, "about": about[:ABOUT_CHARACTERS]}
    return entry.model_copy(update={**change, "last_at": at, "count": 0})


def _about(message: AnyMessage) -> str:
    match message:
        case Answer():
            said = message.choice or f"a text of {len(message.text or '')} characters"
            return f"gate {message.gate}: {said}"
        case Amend():
            return ", ".join(_changes(message))
        case Stop():
            return message.mode
        case _:
            return ""


def _changes(message: Amend) -> list[str]:
    """Limits with their values, and of everything else that it changes the name."""
    limits = [f"budget.{name} = {str(value)[:40]}" for name, value in message.budget.items()]
    other = message.model_dump(
        include={"rubric", "guidance", "remove", "goal", "max_iterations", "metadata"},
        exclude_defaults=True,
    )
    return limits + [name if name != "remove" else f"remove {message.remove}" for name in other]
