"""Single sign-on: who an identity provider says somebody is, and what that person may do here.

A person who signed in is an API token like any other, so that scopes, the audit trail and the rule
of the separate approver hold for both. Its id is made of the provider and the person's id there:
somebody who signs in twice is the same person.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.installation.access import NAME_CHARACTERS, SCOPES, ApiToken, Scope, digest_of

EVERYBODY = "*"
ID_PREFIX = "sso-"
ID_DIGITS = 24
GROUPS_TOLD = 10


class Person(FrozenModel):
    """Somebody as the identity provider knows them.

    Args:
        subject: the provider's id of the person, which never changes.
        name: for the audit trail: the e-mail address, if the provider tells it.
        groups: the names of the groups that the person is in.
    """

    subject: str
    name: str
    groups: tuple[str, ...] = ()


class Attempt(FrozenModel):
    """What one sign-in keeps in the browser until the provider has answered.

    Args:
        state: comes back with the answer.
        nonce: comes back inside the signed identity.
        verifier: proves that whoever asked is who gets the answer (PKCE).
        back: the address to which the provider leads back.
    """

    state: str
    nonce: str
    verifier: str
    back: str


class IdentityProvider(Protocol):
    """An OpenID Connect provider."""

    @property
    def issuer(self) -> str:
        """The address that names it."""
        ...

    async def address(self, attempt: Attempt) -> str:
        """Where the browser is sent to sign in.

        Raises:
            ServiceUnavailable: the provider does not answer, or not as OpenID Connect has it.
        """
        ...

    async def person(self, attempt: Attempt, answer: str) -> Person:
        """Who signed in.

        Args:
            attempt: as it was at the start.
            answer: the whole address to which the provider led back.

        Raises:
            NotAllowed: the provider refused, or its answer is not of this attempt.
            ServiceUnavailable: the provider does not answer, or not as OpenID Connect has it.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleSignOn:
    """Sign-in through an identity provider.

    Args:
        provider: where people sign in.
        groups: scopes by the name of a group; `*` is everybody.
    """

    provider: IdentityProvider
    groups: Mapping[str, tuple[Scope, ...]]

    def token(self, person: Person, *, secret: str, now: datetime, hours: float) -> ApiToken:
        """The token that stands for a person, with the scopes of all their groups.

        Raises:
            NotAllowed: no group of theirs has any.
        """
        return ApiToken(
            id=token_id(self.provider.issuer, person.subject),
            name=_printable(person.name) or _printable(person.subject) or "somebody",
            scopes=self._scopes(person),
            digest=digest_of(secret),
            created_at=now,
            expires_at=now + timedelta(hours=hours),
        )

    def _scopes(self, person: Person) -> tuple[Scope, ...]:
        named = (EVERYBODY, *person.groups)
        granted = {scope for group in named for scope in self.groups.get(group, ())}
        if not granted:
            told = ", ".join(map(repr, person.groups[:GROUPS_TOLD])) or "none"
            raise NotAllowed(
                f"{_printable(person.name)!r} has no access: groups at the provider: {told}.",
                cure="Ask the operator to give one of them scopes in PERDURE_OIDC_GROUPS.",
            )
        return tuple(scope for scope in SCOPES if scope in granted)


def token_id(issuer: str, subject: str) -> str:
    """The id of the token that stands for a person; no bearer token has an id like it."""
    # With the length, no other issuer and subject make the same text.
    told = hashlib.sha256(f"{len(issuer)} {issuer} {subject}".encode()).hexdigest()
    return ID_PREFIX + told[:ID_DIGITS]


def renewed(known: ApiToken, wanted: ApiToken) -> ApiToken:
    """A person's token at another sign-in.

    Sessions elsewhere go on if the person may still do the same; if not, they end, because each
    holds on to the digest.

    Raises:
        NotAllowed: the token was revoked: the operator has shut this person out.
    """
    if known.revoked_at is not None:
        raise NotAllowed(
            f"The access of {known.name!r} ({known.id}) was revoked.", cure="Ask the operator."
        )
    same = known.scopes == wanted.scopes
    update = {
        "name": wanted.name,
        "scopes": wanted.scopes,
        "expires_at": wanted.expires_at,
        "digest": known.digest if same else wanted.digest,
    }
    return known.model_copy(update=update)


def stands_for_person(token_id: str) -> bool:
    """Whether a token stands for somebody who signs in at a provider."""
    return token_id.startswith(ID_PREFIX)


def _printable(text: str) -> str:
    """One line without control or formatting characters, which could hide who somebody is."""
    kept = "".join(" " if unicodedata.category(one)[0] in "CZ" else one for one in text)
    return " ".join(kept.split())[:NAME_CHARACTERS]


def checked_groups(groups: Iterable[object]) -> tuple[str, ...]:
    """The group names in a claim; whatever is no text is none."""
    return tuple(group for group in groups if isinstance(group, str) and group != EVERYBODY)
