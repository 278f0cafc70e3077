"""The audit trail: who asked what of runs and tokens, and whether it was allowed."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from perdure.domain.run.audit import Action, AuditEntry, AuditFilter, Outcome
from perdure.interfaces.rest.auth import Admin, Site
from perdure.interfaces.rest.error_responses import invalid
from perdure.interfaces.rest.paging import PAGE, CursorText, Limit, cursors
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.schemas import Page

router = APIRouter(tags=["audit"], route_class=BoundedRoute)


class AuditPage(Page):
    """One page of the trail, the newest first."""

    items: tuple[AuditEntry, ...] = ()


@router.get("/api/v1/audit")
async def read_audit(
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
    if since is not None and since.tzinfo is None:
        raise invalid("query.since", "has no time zone; allowed: 2026-01-31T12:00:00Z")
    wanted = AuditFilter(action=action, outcome=outcome, run=run, who=who, since=since)
    pages = await cursors(site, "audit", wanted.model_dump(mode="json"))
    offset = pages.offset(cursor)
    asked = wanted.model_copy(update={"limit": limit + 1, "offset": offset})
    found = await site.services.audit.entries(asked)
    following = pages.after(offset, limit=limit, total=offset + len(found))
    return AuditPage(items=tuple(found[:limit]), cursor=following)
