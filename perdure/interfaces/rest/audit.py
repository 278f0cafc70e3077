"""The audit trail: who asked what of runs and tokens, and whether it was allowed."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from perdure.domain.run.audit import Action, AuditEntry, AuditFilter, AuditStore, Outcome
from perdure.interfaces.places import Hide
from perdure.interfaces.rest.auth import Admin, Site
from perdure.interfaces.rest.error_responses import invalid
from perdure.interfaces.rest.paging import PAGE, CursorText, Limit, cursors
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.schemas import Page

NDJSON = "application/x-ndjson"
EXPORT_PAGE = 1_000

router = APIRouter(tags=["audit"], route_class=BoundedRoute)


class AuditPage(Page):
    """One page of the trail, the newest first."""

    items: tuple[AuditEntry, ...] = ()


@router.get("/api/v1/audit")
async def read_audit(
    request: Request,
    site: Site,
    _: Admin,
    action: Annotated[Action | None, Query()] = None,
    outcome: Annotated[Outcome | None, Query()] = None,
    run: Annotated[str | None, Query(max_length=200)] = None,
    who: Annotated[str | None, Query(max_length=200)] = None,
    since: Annotated[datetime | None, Query(description="Not before this moment.")] = None,
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> AuditPage:
    """Refused logins, uses of tokens, and what runs were asked: by whom, when, with what end."""
    wanted = AuditFilter(action=action, outcome=outcome, run=run, who=who, since=_with_zone(since))
    pages = await cursors(site, "audit", wanted.model_dump(mode="json"))
    offset = pages.offset(cursor)
    asked = wanted.model_copy(update={"limit": limit + 1, "offset": offset})
    found = await site.services.audit.entries(asked)
    following = pages.after(offset, limit=limit, total=offset + len(found))
    shown = (told(entry, request.app.state.hide) for entry in found[:limit])
    return AuditPage(items=tuple(shown), cursor=following)


@router.get(
    "/api/v1/audit.jsonl",
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}}}}},
)
async def export_audit(
    request: Request,
    site: Site,
    _: Admin,
    action: Annotated[Action | None, Query()] = None,
    outcome: Annotated[Outcome | None, Query()] = None,
    run: Annotated[str | None, Query(max_length=200)] = None,
    who: Annotated[str | None, Query(max_length=200)] = None,
    since: Annotated[datetime | None, Query(description="Not before this moment.")] = None,
) -> StreamingResponse:
    """The whole trail that fits as lines of JSON, the newest first, to keep it elsewhere."""
    wanted = AuditFilter(
        action=action, outcome=outcome, run=run, who=who, since=_with_zone(since), limit=EXPORT_PAGE
    )
    lines = _lines(site.services.audit, wanted, request.app.state.hide)
    return StreamingResponse(lines, media_type=NDJSON)


def told(entry: AuditEntry, hide: Hide) -> AuditEntry:
    """An entry without folders of this host, which a refusal may have named."""
    return entry.model_copy(update={"about": hide(entry.about)})


async def _lines(trail: AuditStore, wanted: AuditFilter, hide: Hide) -> AsyncIterator[str]:
    """The lines of the trail, page by page, without duplicates.

    New entries shift the pages, so an entry already sent may come again; it is left out.
    """
    sent: set[str] = set()
    while page := await trail.entries(wanted):
        new = [told(one, hide) for one in page if one.id not in sent]
        yield "".join(f"{one.model_dump_json()}\n" for one in new)
        sent = {one.id for one in page}
        wanted = wanted.model_copy(update={"offset": wanted.offset + EXPORT_PAGE})


def _with_zone(since: datetime | None) -> datetime | None:
    """The moment in UTC, as stores compare it."""
    if since is None:
        return None
    if since.tzinfo is None:
        raise invalid("query.since", "has no time zone; allowed: 2026-01-31T12:00:00Z")
    try:
        return since.astimezone(UTC)
    except OverflowError:
        raise invalid("query.since", "is outside the years 1 to 9999 in UTC") from None
