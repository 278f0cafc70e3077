"""Encryption keys, by reference: the setting names where the key is, never the key."""

import base64
import binascii
import os
from pathlib import Path

from perdure.adapters.settings import Settings
from perdure.domain.errors import InvalidInput

KEY_BYTES = 32


def encryption_key(settings: Settings) -> bytes | None:
    """The 32-byte key behind `env:NAME` or `file:PATH` (base64), or None.

    Raises:
        InvalidInput: the reference leads nowhere, or to something that is no key.
    """
    if settings.encryption_key is None:
        return None
    reference = settings.encryption_key.get_secret_value()
    kind, _, place = reference.partition(":")
    cure = "Set PERDURE_ENCRYPTION_KEY to env:NAME or file:PATH of a base64 key of 32 bytes."
    try:
        text = os.environ[place] if kind == "env" else Path(place).read_text(encoding="ascii")
        key = base64.b64decode(text.strip(), validate=True)
    except (KeyError, OSError, ValueError, binascii.Error):
        raise InvalidInput(f"No key can be read from {kind}:{place}.", cure=cure) from None
    if kind not in {"env", "file"} or len(key) != KEY_BYTES:
        raise InvalidInput(f"The key in {kind}:{place} is {len(key)} bytes long.", cure=cure)
    return key
