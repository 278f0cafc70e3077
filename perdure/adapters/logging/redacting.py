"""What this process must never tell: the secrets that it was configured with, by value.

Every adapter that turns foreign words into ours, or writes them where they stay, asks `told`.
Process-wide on purpose: logs, failures and spans of a process are made in places that no settings
reach, and a secret of one installation is none that another one in it should tell.
"""

import base64
import json
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

from perdure.domain.foundation.redaction import redacted, redacted_data

# Shorter values occur in ordinary words; taking them out would say more than it hides.
LEAST_CHARACTERS = 8

_known: frozenset[str] = frozenset()
_longest_first: tuple[str, ...] = ()


def keep_secret(values: Iterable[str | None]) -> None:
    """Remove these values from all logs and messages from now on."""
    global _known, _longest_first
    found = {spelling for value in values if value for spelling in spellings(value)}
    if found <= _known:
        return
    _known |= found
    # A secret that holds another one is taken out whole.
    _longest_first = tuple(sorted(_known, key=len, reverse=True))


def told(words: object) -> str:
    """Foreign text (or the text of an error) without secrets."""
    return redacted(str(words), _longest_first)


def told_data(data: object) -> object:
    """The same for data as JSON has it."""
    return redacted_data(data, _longest_first)


def spellings(secret: str) -> frozenset[str]:
    """A secret as it may stand in a text: plain, in a URL, in JSON, in base64.

    One that is too short, or not a word of its own, has none.
    """
    bare = secret.strip()
    if len(bare) < LEAST_CHARACTERS:
        return frozenset()
    return frozenset(
        {
            bare,
            quote(bare, safe=""),
            json.dumps(bare)[1:-1],
            base64.b64encode(bare.encode(errors="replace")).decode().rstrip("="),
        }
    )


def secrets_of_url(url: str) -> tuple[str, ...]:
    """The password that a URL carries, if any."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ()
    return (parts.password,) if parts.password else ()
