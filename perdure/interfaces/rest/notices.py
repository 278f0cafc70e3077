"""Notices to people: list them with their state, and send them again."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from perdure.domain.run.notices import Notice, NoticeState
from perdure.interfaces.notices import send_again
from perdure.interfaces.rest.auth import Admin, Site
from perdure.interfaces.rest.paging import PAGE, Limit
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
) -> NoticePage:
    """Notices that wait to be tried again, were delivered, or that no channel took."""
    return NoticePage(items=tuple(await site.services.notices().notices(state, limit=limit)))


@router.post("/{notice}/resend")
async def resend(site: Site, caller: Admin, notice: Id) -> Notice:
    """Have a notice sent again, by the next worker that has a channel."""
    (sent,) = await send_again(site.services, [notice], by=caller.name, now=site.now())
    return sent
