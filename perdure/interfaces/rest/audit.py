"""The audit trail: who asked what of runs and tokens, and whether it was allowed."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from perdure.domain.run.audit import (
    Action,
    AuditEntry,
    AuditFilter,
    AuditPlace,
    AuditStore,
    Outcome,
)
from perdure.interfaces.places import Hide
from perdure.interfaces.rest.callers import Admin, Site
from perdure.interfaces.rest.error_responses import invalid
from perdure.interfaces.rest.paging import PAGE, CursorText, Limit, cursors, foreign_cursor
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.schemas import Page, RunId

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
    run: RunId = None,
    who: Annotated[str | None, Query(max_length=200)] = None,
    since: Annotated[datetime | None, Query(description="Not before this moment.")] = None,
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> AuditPage:
    """Refused logins, uses of tokens, and what runs were asked: by whom, when, with what end."""
    wanted = AuditFilter(action=action, outcome=outcome, run=run, who=who, since=_with_zone(since))
    pages = await cursors(site, "audit", wanted.model_dump(mode="json"))
    place = _place(pages.read(cursor)) or AuditPlace(mark=await site.services.audit.mark())
    asked = wanted.model_copy(update={"limit": limit + 1, "place": place})
    found = await site.services.audit.entries(asked)
    following = place.behind(found[limit - 1]).model_dump_json() if len(found) > limit else None
    shown = (without_host_paths(entry, request.app.state.hide) for entry in found[:limit])
    return AuditPage(items=tuple(shown), cursor=pages.made(following))


def _place(text: str | None) -> AuditPlace | None:
    if text is None:
        return None
    try:
        return AuditPlace.model_validate_json(text)
    except ValidationError:  # signed by an earlier version, which counted entries
        raise foreign_cursor() from None


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
    run: RunId = None,
    who: Annotated[str | None, Query(max_length=200)] = None,
    since: Annotated[datetime | None, Query(description="Not before this moment.")] = None,
) -> StreamingResponse:
    """The whole trail that fits as lines of JSON, the newest first, to keep it elsewhere."""
    wanted = AuditFilter(
        action=action, outcome=outcome, run=run, who=who, since=_with_zone(since), limit=EXPORT_PAGE
    )
    lines = _lines(site.services.audit, wanted, request.app.state.hide)
    return StreamingResponse(lines, media_type=NDJSON)


def without_host_paths(entry: AuditEntry, hide: Hide) -> AuditEntry:
    """An entry without folders of this host, which a refusal may have named."""
    return entry.model_copy(update={"about": hide(entry.about)})


async def _lines(trail: AuditStore, wanted: AuditFilter, hide: Hide) -> AsyncIterator[str]:
    """The lines of the trail as it stands now, page by page."""
    place = AuditPlace(mark=await trail.mark())
    while page := await trail.entries(wanted.model_copy(update={"place": place})):
        yield "".join(f"{without_host_paths(one, hide).model_dump_json()}\n" for one in page)
        place = place.behind(page[-1])


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
