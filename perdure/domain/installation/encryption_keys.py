"""Encryption keys of an installation: which there are, and what still needs each of them."""

from datetime import datetime

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import NotAllowed

UNKNOWN_KEY = "(unknown)"
NAMED = 3


class KnownKey(FrozenModel):
    """A key that has encrypted something here; its id reveals nothing about it."""

    id: str
    first_used_at: datetime
    retired_at: datetime | None = None


class KeyUse(FrozenModel):
    """What only one key opens.

    Attributes:
        id: the key; `(unknown)` for what no configured key opens.
        current: new content is encrypted with it.
        configured: the settings name it.
        rows: values of the database.
        blobs: blobs.
        runs: runs whose histories the server keeps.
        retired_at: since when nothing may need it.
        whole: everything was looked at; otherwise the numbers are the least.
    """

    id: str
    current: bool = False
    configured: bool = False
    rows: int = 0
    blobs: int = 0
    runs: tuple[str, ...] = ()
    retired_at: datetime | None = None
    whole: bool = True

    @property
    def needed(self) -> bool:
        """Whether something cannot be read without it."""
        return bool(self.rows or self.blobs or self.runs)

    @property
    def needs(self) -> str:
        """What needs it, in words."""
        found = [
            f"{_many(self.rows, 'value')} of the database" if self.rows else "",
            _many(self.blobs, "blob") if self.blobs else "",
            f"the histories of {_many(len(self.runs), 'run')} ({_named(self.runs)})"
            if self.runs
            else "",
        ]
        told = ", ".join(part for part in found if part) or "nothing"
        return told if self.whole else f"at least {told}"


def require_retirable(use: KeyUse) -> None:
    """Refuse to retire a key that something needs.

    Raises:
        NotAllowed: it encrypts new content, or something needs it.
    """
    if use.current:
        raise NotAllowed(
            f"The key {use.id} encrypts what is written now.",
            cure="Name another one in PERDURE_ENCRYPTION_KEY and this one in "
            "PERDURE_ENCRYPTION_OLD_KEYS first, and restart all processes.",
        )
    if use.needed:
        again = "`perdure keys rewrap` encrypts rows and blobs again; " if _stored(use) else ""
        kept = "histories go when the server's retention of those runs is over" if use.runs else ""
        raise NotAllowed(
            f"The key {use.id} is still needed: {use.needs}.", cure=f"{again}{kept}".strip("; ")
        )


def _stored(use: KeyUse) -> bool:
    return bool(use.rows or use.blobs)


def _named(runs: tuple[str, ...]) -> str:
    more = ", …" if len(runs) > NAMED else ""
    return ", ".join(runs[:NAMED]) + more


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
