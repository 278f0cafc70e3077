"""Notices to people: list them with their state, and send them again."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query

from perdure.domain.run.notices import Notice, NoticePlace, NoticeState
from perdure.interfaces.notices import send_again
from perdure.interfaces.rest.callers import Admin, Site
from perdure.interfaces.rest.paging import PAGE, CursorText, Limit, cursors
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.schemas import Page

router = APIRouter(prefix="/api/v1/notices", tags=["notices"], route_class=BoundedRoute)
Id = Annotated[str, Path(pattern=r"^msg_[0-9a-f]{32}$", description="The notice's id.")]


class NoticePage(Page):
    """Notices, the newest first."""

    items: tuple[Notice, ...] = ()


@router.get("")
async def list_notices(
    site: Site,
    _: Admin,
    state: Annotated[NoticeState | None, Query()] = None,
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> NoticePage:
    """Notices: `waiting` to be tried again, `delivered`, `dead`, or `dropped`.

    No channel took those that are dead. The run of those that were dropped ended first.
    """
    pages = await cursors(site, "notices", state)
    after = _place(pages.read(cursor))
    # One more than the page holds, to know whether there is a next page.
    found = await site.services.notices().notices(state, limit=limit + 1, after=after)
    last = found[limit - 1] if len(found) > limit else None
    place = None if last is None else f"{last.made_at.isoformat()} {last.id}"
    return NoticePage(items=tuple(found[:limit]), cursor=pages.made(place))


@router.post("/{notice}/resend")
async def resend(site: Site, caller: Admin, notice: Id) -> Notice:
    """Have a notice sent again, by the next worker that has a channel."""
    (sent,) = await send_again(site.services, [notice], by=caller.name, now=site.now())
    return sent


def _place(told: str | None) -> NoticePlace | None:
    if told is None:
        return None
    made_at, _, id = told.partition(" ")
    return NoticePlace(datetime.fromisoformat(made_at), id)
