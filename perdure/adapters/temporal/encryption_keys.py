"""Encryption keys by reference: a setting says where the key is, never the key itself."""

import base64
import binascii
import re
import secrets
from pathlib import Path

from perdure.adapters.files.private import write_once
from perdure.adapters.logging.redacting import keep_secret
from perdure.adapters.settings.secret_references import WAYS, resolve_reference
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput, StoreError

KEY_BYTES = 32
CODEC_TOKEN = "codec.token"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,200}")
CURE = (
    f"Set {{variable}} to {WAYS} of a base64 key of 32 bytes; `openssl rand -base64 32` makes one."
)


def encryption_keys(settings: Settings) -> tuple[bytes, ...]:
    """The 32-byte keys behind their references (base64), the current one first.

    Without a current key, old keys are not used either: new content would not be encrypted.

    Raises:
        InvalidInput: a reference leads to nothing, or to something that is no key.
    """
    if settings.encryption_key is None:
        return ()
    current = _key(settings.encryption_key.get_secret_value(), "PERDURE_ENCRYPTION_KEY")
    old = [_key(name, "PERDURE_ENCRYPTION_OLD_KEYS") for name in settings.encryption_old_keys]
    return (current, *old)


def codec_token(settings: Settings) -> str:
    """The token of the codec server: from the settings, or else made for this home folder.

    Raises:
        InvalidInput: the setting does not lead to a usable token.
        StoreError: the home folder cannot be written.
    """
    if settings.codec_token is None:
        return _token_of(settings.home)
    cure = f"Set PERDURE_CODEC_TOKEN to {WAYS} of 16 letters, digits, - or _ at least."
    found = resolve_reference(
        "PERDURE_CODEC_TOKEN", settings.codec_token.get_secret_value(), cure=cure
    )
    if not _TOKEN.fullmatch(found.strip()):
        raise InvalidInput("PERDURE_CODEC_TOKEN refers to no token.", cure=cure)
    return found.strip()


def _token_of(home: Path) -> str:
    path = home / CODEC_TOKEN
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Several processes may start at once, and all must hold the same one.
        found = write_once(path, f"{secrets.token_urlsafe(32)}\n").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"The token of the codec server cannot be kept in {path} ({error}).",
            cure="Make the home folder writable, or set PERDURE_CODEC_TOKEN.",
        ) from error
    # An empty one would let in everybody who sends none.
    if not _TOKEN.fullmatch(found):
        raise StoreError(
            f"{path} holds no token of the codec server.",
            cure="Delete the file; the next start makes another token.",
        )
    keep_secret([found])
    return found


def _key(reference: str, variable: str) -> bytes:
    cure = CURE.format(variable=variable)
    text = resolve_reference(variable, reference, cure=cure)
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidInput(f"The key behind {variable} is not base64.", cure=cure) from None
    if len(key) != KEY_BYTES:
        raise InvalidInput(
            f"The key behind {variable} has {len(key)} bytes instead of {KEY_BYTES}.", cure=cure
        )
    return key
