"""Who may do what over HTTP: tokens, their scopes, and what is kept of requests that start runs.

A token is shown once, when it is made; the store keeps the SHA-256 of its secret, which has 256
random bits and so needs no slow hash.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from pydantic import Field

from perdure.domain.base import Frozen
from perdure.domain.errors import InvalidInput
from perdure.domain.problems import nearest_name

Scope = Literal["read", "operate", "answer", "execute", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "operate", "answer", "execute", "admin")
# What a scope brings with it: who steers or answers must be able to see what.
_BRINGS: dict[Scope, frozenset[Scope]] = {
    "read": frozenset({"read"}),
    "operate": frozenset({"operate", "read"}),
    "answer": frozenset({"answer", "read"}),
    "execute": frozenset({"execute"}),
    "admin": frozenset(SCOPES),
}
PREFIX = "perdure"
NAME_CHARACTERS = 100
_TOKEN = re.compile(rf"{PREFIX}_([0-9a-f]{{8}})_([A-Za-z0-9_-]{{43}})")


class ApiToken(Frozen):
    """One token as the store keeps it; `digest` is of its secret part."""

    id: str
    name: str = Field(min_length=1, max_length=NAME_CHARACTERS)
    scopes: tuple[Scope, ...]
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def grants(self) -> frozenset[Scope]:
        """All scopes, those included that others bring with them."""
        return frozenset().union(*(_BRINGS[scope] for scope in self.scopes))

    def usable(self, now: datetime) -> bool:
        """Whether it opens anything now."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def opens(self, secret: str) -> bool:
        """Whether a secret is this token's, compared in constant time."""
        return hmac.compare_digest(self.digest, digest_of(secret))


class Credentials(NamedTuple):
    """The two parts of a token's text."""

    id: str
    secret: str

    @property
    def text(self) -> str:
        """As it is handed to its owner and sent with each request."""
        return f"{PREFIX}_{self.id}_{self.secret}"

    @classmethod
    def read(cls, text: str) -> "Credentials | None":
        """The parts of a text, or None when it is no token."""
        found = _TOKEN.fullmatch(text)
        return None if found is None else cls(*found.groups())


def digest_of(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def scopes_of(names: Iterable[str]) -> tuple[Scope, ...]:
    """Scopes by name, each once, in their usual order.

    Raises:
        InvalidInput: there is none of a name, or none was given.
    """
    wanted = set(names)
    if unknown := sorted(wanted - set(SCOPES)):
        near = nearest_name(unknown[0], SCOPES)
        hint = f" Did you mean {near}?" if near else ""
        raise InvalidInput(
            f"There is no scope {unknown[0]!r}.{hint}", cure=f"There are {', '.join(SCOPES)}."
        )
    if not wanted:
        raise InvalidInput("A token needs a scope.", cure=f"There are {', '.join(SCOPES)}.")
    return tuple(scope for scope in SCOPES if scope in wanted)


class StartedBy(Frozen):
    """A request that started a run: whose it was, and what its key stands for.

    `body_hash` and `key` are None where no idempotency key came with it.
    """

    run: str
    token: str
    at: datetime
    key: str | None = None
    body_hash: str | None = None


class AccessStore(Protocol):
    """Tokens, the requests that started runs, and the secret that signs cursors."""

    async def add_token(self, token: ApiToken) -> None:
        """Keep a new token."""
        ...

    async def token(self, token_id: str) -> ApiToken | None:
        """One token by its id, revoked ones included."""
        ...

    async def tokens(self) -> list[ApiToken]:
        """All tokens, the oldest first."""
        ...

    async def revoke_token(self, token_id: str, *, at: datetime) -> bool:
        """Make a token useless; False when there is none, or it is revoked already."""
        ...

    async def claim_start(self, wanted: StartedBy) -> StartedBy:
        """Note a start, or return the one that the same token made with the same key before."""
        ...

    async def started_by(self, run: str) -> StartedBy | None:
        """The request that started a run; None for runs that other doors started."""
        ...

    async def forget_start(self, run: str) -> None:
        """Drop what is kept of a run's start."""
        ...

    async def signing_key(self) -> bytes:
        """32 random bytes of this installation, made at first use."""
        ...
