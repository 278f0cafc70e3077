"""Removes the secrets that this process was configured with from texts, by their value.

Every adapter calls `told` on foreign text before it becomes a message of ours or is written
anywhere. The list is one for the whole process: logs, failures and spans are made in places that no
settings reach, and no installation in the process should reveal the secrets of another.
"""

import base64
import json
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote, urlsplit

from perdure.domain.foundation.redaction import names_a_secret, redacted, redacted_data

# Shorter values occur in ordinary words: removing them would damage texts, and reveal the value.
LEAST_CHARACTERS = 8

_known: frozenset[str] = frozenset()
_longest_first: tuple[str, ...] = ()


def keep_secret(values: Iterable[str | None]) -> None:
    """Remove these values from all logs and messages from now on."""
    global _known, _longest_first
    found = {spelling for value in values if value for spelling in spellings(value)}
    if found <= _known:
        return
    # It only grows: a secret that was replaced may still stand in an answer on its way.
    _known |= found
    # So that a secret that contains another one is removed completely.
    _longest_first = tuple(sorted(_known, key=len, reverse=True))


def without_secrets(words: object) -> str:
    """Foreign text (or the text of an error) without secrets."""
    return redacted(str(words), _longest_first)


def data_without_secrets(data: object) -> object:
    """The same for JSON data."""
    return redacted_data(data, _longest_first)


def spellings(secret: str) -> frozenset[str]:
    """The forms in which a secret may be in a text: plain, in a URL, in JSON, in base64.

    A secret that is too short has none.
    """
    bare = secret.strip()
    if len(bare) < LEAST_CHARACTERS:
        return frozenset()
    return frozenset(
        {
            bare,
            quote(bare, safe="", errors="replace"),
            json.dumps(bare)[1:-1],
            # Without the padding, which is not there where the encoded text goes on.
            base64.b64encode(bare.encode(errors="replace")).decode().rstrip("="),
        }
    )


def secrets_of_url(url: str) -> tuple[str, ...]:
    """The passwords in a URL: before its host, and among its options, where drivers take some."""
    try:
        parts = urlsplit(url)
        options = parse_qsl(parts.query)
    except ValueError:
        return ()
    named = [text for name, text in options if names_a_secret(name) or "password" in name.lower()]
    return (parts.password, *named) if parts.password else (*named,)
