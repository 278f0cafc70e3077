"""What runs left for later runs, and people's decisions on their proposals."""

import json
from typing import Annotated

from fastapi import APIRouter, Path, Query

from perdure.domain.foundation.base import FrozenModel
from perdure.interfaces.library import Library, LibraryEntry, LibraryItem, Shelf, State, place_of
from perdure.interfaces.rest.callers import Operator, Reader, Site
from perdure.interfaces.rest.paging import PAGE, CursorText, Limit, cursors, foreign_cursor
from perdure.interfaces.rest.request_limits import BoundedRoute
from perdure.interfaces.rest.schemas import Page
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.unreadable_memory import unreadable_note

router = APIRouter(prefix="/api/v1/library/{shelf}", tags=["library"], route_class=BoundedRoute)
Entry = Annotated[str, Path(min_length=1, max_length=200, description="The `id` in the list.")]


class LibraryPage(Page):
    """One page of a shelf: what waits for a person first, then the newest."""

    items: tuple[LibraryItem, ...] = ()


class ApproveBody(FrozenModel):
    """The name that a skill gets; without one, that of its run."""

    name: str | None = None


@router.get("")
async def list_library(
    site: Site,
    _: Reader,
    shelf: Shelf,
    state: Annotated[State | None, Query()] = None,
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> LibraryPage:
    """Skills, learnings, patterns or tools, each with its state, scope and the runs it is from."""
    pages = await cursors(site, "library", shelf, state)
    behind = _place(pages.read(cursor))
    found = await _library(site).items(shelf, state)
    later = [one for one in found if behind is None or place_of(one) > behind]
    return LibraryPage(
        items=tuple(later[:limit]),
        cursor=pages.made(json.dumps(place_of(later[limit - 1])) if len(later) > limit else None),
        note=await unreadable_note(site.services.memory) if cursor is None else "",
    )


@router.get("/{entry}")
async def get_library_entry(site: Site, _: Reader, shelf: Shelf, entry: Entry) -> LibraryEntry:
    """One thing whole: the text of a skill, the code and the parameters of a tool."""
    return await _library(site).entry(shelf, entry)


@router.post("/{entry}/approve")
async def approve_library_entry(
    site: Site, caller: Operator, shelf: Shelf, entry: Entry, body: ApproveBody | None = None
) -> LibraryItem:
    """Open what an accepted run proposed to later runs; a pattern becomes a skill."""
    name = (body or ApproveBody()).name
    return await _library(site).approve(shelf, entry, by=caller.name, trail=site.trail, name=name)


@router.post("/{entry}/reject")
async def reject_library_entry(
    site: Site, caller: Operator, shelf: Shelf, entry: Entry
) -> LibraryItem:
    """Keep what a run proposed from later runs: a skill is dropped, a tool closed to every run."""
    return await _library(site).reject(shelf, entry, by=caller.name, trail=site.trail)


@router.post("/{entry}/forget")
async def forget_library_entry(
    site: Site, caller: Operator, shelf: Shelf, entry: Entry
) -> LibraryItem:
    """Drop a skill or a learning; the answer is the item as it was."""
    return await _library(site).forget(shelf, entry, by=caller.name, trail=site.trail)


def _place(text: str | None) -> tuple[int, float, str] | None:
    if text is None:
        return None
    place = json.loads(text)
    if not isinstance(place, list):  # signed by an earlier version, which counted items
        raise foreign_cursor()
    rank, created, id = place
    return int(rank), float(created), str(id)


def _library(site: ApiSite) -> Library:
    return Library(site.services, site.now())
