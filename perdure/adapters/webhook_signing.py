"""Signatures of webhooks as https://www.standardwebhooks.com says, with a secret by reference."""

import base64
import binascii
import hashlib
import hmac

from perdure.adapters.settings.variables import secret_behind
from perdure.domain.foundation.errors import InvalidInput

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
CURE = (
    "Set PERDURE_NOTIFY_SECRET to env:NAME or file:PATH of `whsec_` and the base64 of 24 to 64 "
    'bytes; `echo "whsec_$(openssl rand -base64 32)"` makes one.'
)


def signing_secret(reference: str) -> bytes:
    """The bytes behind `env:NAME` or `file:PATH`.

    Raises:
        InvalidInput: it leads nowhere, or to something that is no such secret.
    """
    text = (secret_behind(reference) or "").strip()
    if not text:
        # The reference itself may be a secret that was set by mistake: it is not repeated.
        raise InvalidInput("PERDURE_NOTIFY_SECRET leads to no secret.", cure=CURE)
    try:
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidInput(
            "The secret behind PERDURE_NOTIFY_SECRET is not base64.", cure=CURE
        ) from None
    if not SHORTEST <= len(secret) <= LONGEST:
        raise InvalidInput(
            f"The secret behind PERDURE_NOTIFY_SECRET is {len(secret)} bytes long.", cure=CURE
        )
    return secret


def signed_headers(secret: bytes, *, key: str, at: int, body: bytes) -> dict[str, str]:
    """The three headers of one delivery.

    Args:
        secret: what the receiver knows as well.
        key: the same for a repeat of the same notice; its hash is the id, which has no dots.
        at: the moment of this delivery, in seconds since 1970.
        body: exactly what is sent.
    """
    name = f"msg_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    signed = f"{name}.{at}.".encode() + body
    digest = base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()
    return {
        "webhook-id": name,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{digest}",
    }
