"""How sessions, projects, artifacts and todos are named.

Ids are made of a key that stays the same when a step is tried again, so that a repeat finds what
the first try wrote instead of writing it twice.
"""

import hashlib
import re

from perdure.domain.foundation.names import plain_letters

SLUG_WORDS = 6
SLUG_CHARACTERS = 48
ID_CHARACTERS = 16  # 64 bits: what two runs make never meets by chance


def stable_id(kind: str, *key: str) -> str:
    """An id such as `todo-1f3a09bc5d7e2b64`, always the same for the same key."""
    digest = hashlib.sha256("\0".join((kind, *key)).encode("utf-8", "replace")).hexdigest()
    return f"{kind}-{digest[:ID_CHARACTERS]}"


def slug_of(goal: str) -> str:
    """The first words of a goal as a name: lower-case words joined by dashes."""
    words = re.findall(r"[a-z0-9]+", plain_letters(goal))[:SLUG_WORDS]
    return "-".join(words)[:SLUG_CHARACTERS].strip("-") or "project"


def numbered(slug: str, number: int) -> str:
    """The slug itself, then `slug-2`, `slug-3` and so on where earlier ones are taken."""
    return slug if number < 2 else f"{slug}-{number}"
