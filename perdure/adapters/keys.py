"""Encryption keys, by reference: the setting names where the key is, never the key."""

import base64
import binascii

from perdure.adapters.settings import Settings, secret_behind
from perdure.domain.errors import InvalidInput

KEY_BYTES = 32
CURE = (
    "Set {variable} to env:NAME or file:PATH of a base64 key of 32 bytes; "
    "`openssl rand -base64 32` makes one."
)


def encryption_keys(settings: Settings) -> tuple[bytes, ...]:
    """The 32-byte keys behind `env:NAME` or `file:PATH` (base64), the current one first.

    Without a current key there are none: old ones alone would leave new content open.

    Raises:
        InvalidInput: a reference leads nowhere, or to something that is no key.
    """
    if settings.encryption_key is None:
        return ()
    current = _key(settings.encryption_key.get_secret_value(), "PERDURE_ENCRYPTION_KEY")
    old = [_key(name, "PERDURE_ENCRYPTION_OLD_KEYS") for name in settings.encryption_old_keys]
    return (current, *old)


def _key(reference: str, variable: str) -> bytes:
    text = secret_behind(reference)
    cure = CURE.format(variable=variable)
    if text is None:
        # The reference itself may be a key that was set by mistake: it is not repeated.
        raise InvalidInput(f"{variable} leads to no key.", cure=cure)
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidInput(f"The key behind {variable} is not base64.", cure=cure) from None
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"The key behind {variable} is {len(key)} bytes long.", cure=cure)
    return key
