"""Whose token a request carries; the same rule for every door that is reached over HTTP."""

from datetime import datetime
from typing import NamedTuple

from perdure.domain.installation.access import NO_DIGEST, AccessStore, ApiToken, Credentials, Ended


class Shown(NamedTuple):
    """The usable token that a request showed, or why the one that it showed ended."""

    token: ApiToken | None = None
    ended: Ended | None = None


async def caller_of(authorization: str | None, access: AccessStore, *, now: datetime) -> Shown:
    """The usable token of an `authorization` header, if it has one.

    That a token ended is told only with its true secret; to anybody else it is a wrong one.
    """
    kind, _, text = (authorization or "").partition(" ")
    credentials = Credentials.read(text.strip()) if kind.lower() == "bearer" else None
    if credentials is None:
        return Shown()
    # A token that does not exist takes as long as one with a wrong secret.
    known = await access.token(credentials.id) or ApiToken(
        id=credentials.id, name="nobody", scopes=(), digest=NO_DIGEST, created_at=now
    )
    standing = known.standing(credentials.secret, now)
    return Shown(token=known) if standing == "usable" else Shown(ended=known.ended(standing))
