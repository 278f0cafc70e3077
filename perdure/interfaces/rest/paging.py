"""Pages of lists: opaque cursors, signed and bound to their list."""

import base64
import binascii
import hashlib
import hmac
import json
from typing import Annotated

from fastapi import Query
from pydantic import JsonValue

from perdure.interfaces.rest.error_responses import Refused, invalid
from perdure.interfaces.rest.settings import ApiSite

PAGE = 50
LARGEST_PAGE = 200
_TAG_BYTES = 16

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="How many items a page has.")]
CursorText = Annotated[
    str | None, Query(max_length=4_000, description="The `cursor` of the page before; opaque.")
]


class Cursors:
    """Makes and reads the cursors of one list.

    Args:
        key: signs them.
        scope: the list with its filters; a cursor is valid only for the same ones.
    """

    def __init__(self, key: bytes, scope: JsonValue) -> None:
        told = json.dumps(scope, sort_keys=True, default=str)
        self._key = hmac.digest(key, b"cursor " + told.encode(), hashlib.sha256)

    def made(self, place: str | None) -> str | None:
        """The cursor for a place; None at the end of the list."""
        if place is None:
            return None
        data = place.encode()
        # Clients put it into a query, where `=` would have to be escaped.
        return base64.urlsafe_b64encode(self._tag(data) + data).decode().rstrip("=")

    def read(self, text: str | None) -> str | None:
        """The place that a cursor stands for; None for the beginning.

        Raises:
            Refused: the cursor was not made here for this list.
        """
        if text is None:
            return None
        try:
            whole = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise foreign_cursor() from None
        tag, data = whole[:_TAG_BYTES], whole[_TAG_BYTES:]
        # Lists take a signed place as it is, without checks of their own.
        if not hmac.compare_digest(tag, self._tag(data)):
            raise foreign_cursor()
        return data.decode()

    def offset(self, text: str | None) -> int:
        """The place as the number of items before it."""
        place = self.read(text)
        return 0 if place is None else int(place)

    def after(self, offset: int, *, limit: int, total: int) -> str | None:
        end = offset + limit
        return self.made(str(end)) if end < total else None

    def _tag(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, hashlib.sha256)[:_TAG_BYTES]


async def cursors(site: ApiSite, *scope: JsonValue) -> Cursors:
    """The cursors of a list of this installation."""
    return Cursors(await site.services.access.signing_key(), list(scope))


def foreign_cursor() -> Refused:
    """The refusal of a cursor that was not made here for this list."""
    return invalid(
        "query.cursor",
        "is not a cursor of this list",
        cure="Take it from the page before, with the same filters, or begin without one.",
    )
