"""Sessions of the page in signed cookies, and tickets that open one.

A session stands for an API token, which is looked up for every request. If the token is revoked,
expires or gets another secret, its sessions end at once. Signing out ends one session in the store,
so that a copy of its cookie is worth nothing. The cookie holds no secret of the token.
"""

import base64
import binascii
import hashlib
import hmac
from datetime import datetime, timedelta
from typing import Self

from pydantic import ValidationError

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.installation.access import AccessStore, ApiToken
from perdure.domain.installation.single_sign_on import Attempt
from perdure.interfaces.tokens import note_use

SESSION_HOURS = 12
TICKET_MINUTES = 2
DIGEST_CHARACTERS = 16
_TAG_BYTES = 32


class Signed(FrozenModel):
    """Data signed by this installation; each subclass has signatures of its own."""

    until: datetime

    @classmethod
    def read(cls, text: str, key: bytes, *, now: datetime) -> Self | None:
        """The signed data; None if the signature is wrong or the time is over."""
        try:
            whole = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            tag, data = whole[:_TAG_BYTES], whole[_TAG_BYTES:]
            # First: nothing that anybody else has written is parsed.
            if not hmac.compare_digest(tag, cls._tag(data, key)):
                return None
            found = cls.model_validate_json(data)
        except (ValueError, binascii.Error, ValidationError):
            return None
        return found if now < found.until else None

    def text(self, key: bytes) -> str:
        """The signed text for a cookie or an address."""
        data = self.model_dump_json().encode()
        # Without `=` at the end, which would make the cookie come back in quotes.
        return base64.urlsafe_b64encode(self._tag(data, key) + data).decode().rstrip("=")

    @classmethod
    def _tag(cls, data: bytes, key: bytes) -> bytes:
        # With the name of the class, so that no ticket is a session. Another name ends all
        # sessions.
        return hmac.digest(key, f"page {cls.__name__} ".encode() + data, hashlib.sha256)


class Session(Signed):
    """One sign-in.

    Args:
        token: the id of the API token that it stands for.
        digest: the beginning of the digest of the token's secret.
        mark: a random value; it identifies the session, and the form key is made from it.
    """

    token: str
    digest: str
    mark: str

    @classmethod
    def of(cls, token: ApiToken, *, mark: str, now: datetime) -> Self:
        """A new session; it ends no later than the token."""
        until = now + timedelta(hours=SESSION_HOURS)
        return cls(
            token=token.id,
            digest=token.digest[:DIGEST_CHARACTERS],
            mark=mark,
            until=min(until, token.expires_at or until),
        )

    async def holder(self, access: AccessStore, *, now: datetime) -> ApiToken | None:
        """The session's token; None if the session ended, or the token is no longer usable."""
        token = await access.session_token(self.token, session=self.mark)
        if token is None or not token.usable(now):
            return None
        if not token.digest.startswith(self.digest):
            return None
        await note_use(access, token, now=now)
        return token

    async def end(self, access: AccessStore, *, now: datetime) -> None:
        await access.end_session(self.mark, until=self.until, now=now)

    def form_key(self, key: bytes) -> str:
        """The key in every form of this session, which no other site can know (CSRF)."""
        # `form` keeps it apart from every signature that is made with this key.
        return hmac.new(key, f"form {self.mark}".encode(), hashlib.sha256).hexdigest()


class SignInUnderWay(Signed):
    """A sign-in in progress at the identity provider, kept in a cookie until the browser is back.

    Args:
        attempt: what the provider's answer is checked against.
        next: where the page goes on afterwards.
    """

    attempt: Attempt
    next: str


class Ticket(Signed):
    """Opens one session, once: using it gives the token another secret.

    Args:
        token: the id of the API token that was made for the session.
        digest: the digest of its secret until then.
    """

    token: str
    digest: str
