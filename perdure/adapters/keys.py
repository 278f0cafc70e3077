"""Encryption keys, by reference: the setting names where the key is, never the key."""

import base64
import binascii

from perdure.adapters.settings import Settings, secret_behind
from perdure.domain.errors import InvalidInput

KEY_BYTES = 32
CURE = (
    "Set PERDURE_ENCRYPTION_KEY to env:NAME or file:PATH of a base64 key of 32 bytes; "
    "`openssl rand -base64 32` makes one."
)


def encryption_key(settings: Settings) -> bytes | None:
    """The 32-byte key behind `env:NAME` or `file:PATH` (base64), or None.

    Raises:
        InvalidInput: the reference leads nowhere, or to something that is no key.
    """
    if settings.encryption_key is None:
        return None
    reference = settings.encryption_key.get_secret_value()
    text = secret_behind(reference)
    if text is None:
        # The reference itself may be a key that was set by mistake: it is not repeated.
        raise InvalidInput("PERDURE_ENCRYPTION_KEY leads to no key.", cure=CURE)
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidInput(
            "The key behind PERDURE_ENCRYPTION_KEY is not base64.", cure=CURE
        ) from None
    if len(key) != KEY_BYTES:
        raise InvalidInput(
            f"The key behind PERDURE_ENCRYPTION_KEY is {len(key)} bytes long.", cure=CURE
        )
    return key
