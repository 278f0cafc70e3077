"""Who may do what over HTTP: tokens, their scopes, and what is kept of requests that start runs.

A token is shown once, when it is made; the store keeps the SHA-256 of its secret, which has 256
random bits and so needs no slow hash.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from pydantic import Field

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.foundation.problems import did_you_mean

Scope = Literal["read", "operate", "answer", "execute", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "operate", "answer", "execute", "admin")
# What a scope implies: whoever steers or answers must be able to see what about.
_BRINGS: dict[Scope, frozenset[Scope]] = {
    "read": frozenset({"read"}),
    "operate": frozenset({"operate", "read"}),
    "answer": frozenset({"answer", "read"}),
    "execute": frozenset({"execute"}),
    "admin": frozenset(SCOPES),
}
PREFIX = "perdure"
NAME_CHARACTERS = 100
OVERLAP_HOURS = 24
USE_KNOWN_TO = timedelta(minutes=1)
# The digest of no secret. With it, refusing takes equally long for tokens with and without an
# earlier secret, and for unknown ones.
NO_DIGEST = "0" * 64
Standing = Literal["usable", "wrong", "revoked", "expired", "replaced"]
# Temporal adds the moment to the id of what a schedule starts; `trial_run_id` makes the other.
_BY_CLOCK = re.compile(r"(.+)-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_OF_TRIAL = re.compile(r"-\d{5,}-\d+-")
_TOKEN = re.compile(rf"{PREFIX}_([0-9a-f]{{8}})_([A-Za-z0-9_-]{{43}})")


class Ended(NamedTuple):
    """Why a token is no longer valid, shown only to a caller with its secret."""

    detail: str
    cure: str


class Sight(NamedTuple):
    """What the holder of a token may see and do, whoever that is."""

    grants: frozenset[Scope]
    runs: frozenset[str]
    folders: frozenset[str]


class ApiToken(FrozenModel):
    """One token as the store keeps it; `digest` is of its secret part.

    With `runs` or `folders` it reaches those runs, runs whose workspace is below one of the
    folders, and all that any of them started; it starts runs below its folders alone.

    A new secret leaves the id as it is, so that the runs, idempotency keys and approvals of its
    owner stay theirs; the secret of before opens it until `former_until`.
    """

    id: str
    name: str = Field(min_length=1, max_length=NAME_CHARACTERS)
    scopes: tuple[Scope, ...]
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    former_digest: str | None = None
    former_until: datetime | None = None
    last_used_at: datetime | None = None
    runs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def bound(self) -> bool:
        """Whether it reaches only some runs, instead of all of the installation."""
        return bool(self.runs or self.folders)

    def unnoted(self, now: datetime) -> bool:
        """Whether a use now must be noted: the last use is kept to the minute."""
        return self.last_used_at is None or now - self.last_used_at >= USE_KNOWN_TO

    @property
    def grants(self) -> frozenset[Scope]:
        """All scopes, including those that others imply."""
        return frozenset().union(*(_BRINGS[scope] for scope in self.scopes))

    @property
    def sight(self) -> "Sight":
        """What decides what its holder sees: tokens of the same sight are answered the same."""
        return Sight(self.grants, frozenset(self.runs), frozenset(self.folders))

    def usable(self, now: datetime) -> bool:
        """Whether it opens anything now."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def standing(self, secret: str, now: datetime) -> Standing:
        """What a secret opens now; digests are compared in constant time."""
        shown = digest_of(secret)
        current = hmac.compare_digest(self.digest, shown)
        former = hmac.compare_digest(self.former_digest or NO_DIGEST, shown)
        if not (current or former):
            return "wrong"
        if self.revoked_at is not None:
            return "revoked"
        if not self.usable(now):
            return "expired"
        replaced = self.former_until is None or now >= self.former_until
        return "replaced" if not current and replaced else "usable"

    def end_notice(self, standing: Standing) -> Ended | None:
        """What the owner of a token that ended is told; None for any other standing."""
        who = f"The token {self.name!r} ({self.id})"
        rotate = f"perdure api token rotate {self.id}"
        if standing == "expired":
            return Ended(f"{who} expired {_at(self.expires_at)}.", f"Renew it: {rotate}")
        if standing == "revoked":
            cure = "Make another: perdure api token create NAME"
            return Ended(f"{who} was revoked {_at(self.revoked_at)}.", cure)
        if standing == "replaced":
            cure = f"Send its newer secret, or make one: {rotate}"
            return Ended(f"{who} got a new secret; this one ended {_at(self.former_until)}.", cure)
        return None

    def rotated(
        self, secret: str, *, at: datetime, expires_at: datetime | None, overlap: timedelta
    ) -> "ApiToken":
        """The same token with another secret; the present one opens it for `overlap` more.

        The overlap never outlasts what was granted: a secret that expired stays useless.

        Raises:
            NotAllowed: the token was revoked.
        """
        if self.revoked_at is not None:
            raise NotAllowed(
                f"The token {self.name!r} ({self.id}) was revoked {_at(self.revoked_at)}.",
                cure="Make another: perdure api token create NAME",
            )
        until = at + overlap
        if self.expires_at is not None:
            until = min(until, self.expires_at)
        return self.model_copy(
            update={
                "digest": digest_of(secret),
                "expires_at": expires_at,
                "former_digest": self.digest,
                "former_until": until,
            }
        )


def require_bindable(scopes: Iterable[Scope]) -> None:
    """Refuse scopes that reach beyond any run for a token that is bound to some.

    Raises:
        InvalidInput: they hold one that does.
    """
    if wider := [scope for scope in scopes if scope in {"execute", "admin"}]:
        raise InvalidInput(
            f"A token with the scope {wider[0]} cannot be bound to runs or folders: what it lets "
            "its holder do is bounded by none.",
            cure="Bind a token of the scopes read, operate and answer.",
        )


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


def _at(moment: datetime | None) -> str:
    return "before" if moment is None else f"on {moment.astimezone(UTC):%Y-%m-%d at %H:%M} UTC"


def digest_of(secret: str) -> str:
    """The digest that is stored in place of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def scopes_of(names: Iterable[str]) -> tuple[Scope, ...]:
    """Scopes by name, each once, in their usual order.

    Raises:
        InvalidInput: there is none of a name, or none was given.
    """
    wanted = set(names)
    if unknown := sorted(wanted - set(SCOPES)):
        hint = did_you_mean(unknown[0], SCOPES)
        raise InvalidInput(
            f"There is no scope {unknown[0]!r}.{hint}", cure=f"There are {', '.join(SCOPES)}."
        )
    if not wanted:
        raise InvalidInput("A token needs a scope.", cure=f"There are {', '.join(SCOPES)}.")
    return tuple(scope for scope in SCOPES if scope in wanted)


class IdempotencyRecord(FrozenModel):
    """A request that started a run, with its token, idempotency key and run.

    `body_hash` and `key` are None where no idempotency key came with it. Until the id of the run is
    known, `run` is a stand-in; `why` says why there is no run yet. A store keeps and returns the
    digest of the key.
    """

    run: str
    token: str
    at: datetime
    key: str | None = None
    body_hash: str | None = None
    why: str = ""


def schedule_source(name: str) -> str:
    """A schedule as a source of runs."""
    return f"schedule {name}"


def experiment_source(id: str) -> str:
    """An experiment as a source of runs."""
    return f"experiment {id}"


def sources_of(run: str) -> tuple[str, ...]:
    """The schedule and the experiments that can have started a run, by the form of its id."""
    clock = _BY_CLOCK.fullmatch(run)
    by_schedule = () if clock is None else (schedule_source(clock[1]),)
    trials = (experiment_source(run[: found.start()]) for found in _OF_TRIAL.finditer(run))
    return (*by_schedule, *trials)


class AccessStore(Protocol):
    """Tokens, ended sessions, the requests that started runs, and the secret that signs cursors."""

    async def add_token(self, token: ApiToken) -> None:
        """Keep a new token."""
        ...

    async def token(self, token_id: str) -> ApiToken | None:
        """One token by its id, revoked ones included."""
        ...

    async def session_token(self, token_id: str, *, session: str) -> ApiToken | None:
        """The token that a session of the page stands for; None if the session was ended."""
        ...

    async def end_session(self, session: str, *, until: datetime, now: datetime) -> None:
        """End a session before its time; it is remembered until it would have ended anyway."""
        ...

    async def tokens(self) -> list[ApiToken]:
        """All tokens, the oldest first."""
        ...

    async def rotate_token(self, token: ApiToken, *, instead_of: str) -> bool:
        """Keep a token's new secret, name and scopes; False where its digest is not `instead_of`.

        A revoked token does not change either: of two at once, one is told that it came late.
        """
        ...

    async def revoke_token(self, token_id: str, *, at: datetime) -> bool:
        """Make a token useless; False when there is none, or it is revoked already."""
        ...

    async def note_use(self, token_id: str, *, at: datetime) -> None:
        """Remember when a token was used last."""
        ...

    async def claim_start(self, wanted: IdempotencyRecord) -> IdempotencyRecord:
        """Note a start, or return the one that the same token made with the same key before."""
        ...

    async def start_of_key(self, token_id: str, key: str) -> IdempotencyRecord | None:
        """The start that a token made with a key; None if it made none."""
        ...

    async def started_by(self, run: str) -> IdempotencyRecord | None:
        """The request that started a run; None for runs that other interfaces started."""
        ...

    async def settle_start(self, claim: str, *, run: str | None, why: str) -> bool:
        """Note what came of a start whose run was not known when it was claimed.

        False, with nothing noted, where another request started that run.
        """
        ...

    async def forget_start(self, run: str) -> None:
        """Drop what is kept of a run's start."""
        ...

    async def note_requester(self, source: str, token_id: str, *, at: datetime) -> None:
        """Note that a token asked for a source of runs; see `sources_of`."""
        ...

    async def requesters(self, sources: Collection[str]) -> frozenset[str]:
        """The tokens that asked for any of these sources."""
        ...

    async def signing_key(self) -> bytes:
        """32 random bytes of this installation, made at first use."""
        ...
