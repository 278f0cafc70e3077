"""Entity tags: the state that a writer saw, so that nobody's change is lost."""

import hashlib
import json

from pydantic import JsonValue

from perdure.interfaces.rest.error_responses import Refused


def tag_of(value: JsonValue) -> str:
    """A strong tag of a value."""
    told = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.sha256(told.encode()).hexdigest()[:32]}"'


def require_match(given: str | None, current: str) -> None:
    """Refuse a change that was made from another state; without a condition anything goes.

    Raises:
        Refused: `If-Match` names no current tag (409 `version_conflict`).
    """
    if given is None or given.strip() == "*":
        return
    named = {part.strip() for part in given.split(",")}
    if current not in named:
        raise Refused(
            409,
            "version_conflict",
            f"It has changed meanwhile: If-Match names {given[:200]}, it is at {current}.",
            cure="Read it again, and send the new ETag.",
            headers={"etag": current},
        )
