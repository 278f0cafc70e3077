"""Whose token a request carries; the same rule for every door that is reached over HTTP."""

from datetime import datetime

from perdure.domain.access import AccessStore, ApiToken, Credentials

# A token that does not exist takes as long as one with a wrong secret.
_NOBODY = "0" * 64


async def caller_of(
    authorization: str | None, access: AccessStore, *, now: datetime
) -> ApiToken | None:
    """The usable token of an `authorization` header, or None."""
    kind, _, text = (authorization or "").partition(" ")
    credentials = Credentials.read(text.strip()) if kind.lower() == "bearer" else None
    if credentials is None:
        return None
    token = await access.token(credentials.id)
    known = token or ApiToken(
        id=credentials.id, name="nobody", scopes=(), digest=_NOBODY, created_at=now
    )
    opens = known.opens(credentials.secret) and token is not None
    return known if opens and known.usable(now) else None
