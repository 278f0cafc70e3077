"""Loop definitions: list them, and change one without overwriting another person's change."""

import json
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.roles.definition_library import Origin, StoredDefinition
from perdure.domain.run.loop_api import LoopParameter
from perdure.interfaces.places import Hide
from perdure.interfaces.rest.callers import Operator, Reader, Site
from perdure.interfaces.rest.paging import PAGE, CursorText, Limit, cursors, foreign_cursor
from perdure.interfaces.rest.request_limits import BoundedRoute, Fields
from perdure.interfaces.rest.runs import PREFIX
from perdure.interfaces.rest.schemas import Page
from perdure.interfaces.rest.scopes import require_harmless_loop, require_served

PATH = f"{PREFIX}/definitions"
router = APIRouter(prefix=PATH, tags=["definitions"], route_class=BoundedRoute)
Workspace = Annotated[
    str | None, Query(max_length=4_000, description="Absolute path of a folder with definitions.")
]
IfMatch = Annotated[str | None, Header(max_length=200, description="The ETag that was read.")]


class Definition(FrozenModel):
    """A loop definition as its author wrote it; `version` is its content's, and its ETag."""

    name: str
    origin: Origin
    version: str
    fields: dict[str, JsonValue]


class DefinitionLine(FrozenModel):
    """One definition in the list; `takes` has its parameters in full."""

    name: str
    origin: Origin
    version: str
    description: str = ""
    roles: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    takes: tuple[LoopParameter, ...] = ()


class Definitions(Page):
    """One page of definitions by name; `note` names files that hold none."""

    items: tuple[DefinitionLine, ...] = ()


@router.get("")
async def list_definitions(
    request: Request,
    site: Site,
    caller: Reader,
    workspace: Workspace = None,
    limit: Limit = PAGE,
    cursor: CursorText = None,
) -> Definitions:
    """Every definition that a run may name: built in, of the home, of a workspace."""
    await require_served(site, caller, workspace)
    pages = await cursors(site, "definitions", workspace)
    behind = _name(pages.read(cursor))
    library = await site.services.definitions().library(workspace)
    names = sorted(name for name in library.definitions if name > behind)
    hide: Hide = request.app.state.hide
    broken = ", ".join(hide(one.path) for one in library.broken)
    return Definitions(
        items=tuple(_line(library.definitions[name]) for name in names[:limit]),
        cursor=pages.made(json.dumps(names[limit - 1]) if len(names) > limit else None),
        note=f"Files that hold no definition: {broken}." if broken else "",
    )


@router.get("/{name}")
async def get_definition(
    site: Site, caller: Reader, name: str, response: Response, workspace: Workspace = None
) -> Definition:
    """One definition, with its `ETag`."""
    await require_served(site, caller, workspace)
    return _told(await site.services.definitions().get(name, workspace=workspace), response)


@router.post("", status_code=201)
async def create_definition(
    site: Site,
    caller: Operator,
    fields: Fields,
    response: Response,
    workspace: Workspace = None,
    if_none_match: Annotated[
        str | None, Header(max_length=200, description="`*`: only where the name is free.")
    ] = None,
) -> Definition:
    """Add a definition under the name in its fields."""
    await require_served(site, caller, workspace)
    await require_harmless_loop(site, caller, fields, workspace)
    only_new = (if_none_match or "").strip() == "*"
    made = await site.services.definitions().create(fields, only_new=only_new, workspace=workspace)
    response.headers["location"] = f"{PATH}/{made.name}"
    return _told(made, response)


@router.put("/{name}")
async def update_definition(
    site: Site,
    caller: Operator,
    name: str,
    fields: Fields,
    response: Response,
    workspace: Workspace = None,
    if_match: IfMatch = None,
) -> Definition:
    """Replace a definition; runs that are under way keep theirs."""
    await require_served(site, caller, workspace)
    await require_harmless_loop(site, caller, fields, workspace)
    changed = await site.services.definitions().update(
        name, fields, version=_version(if_match), workspace=workspace
    )
    return _told(changed, response)


@router.delete("/{name}", status_code=204)
async def delete_definition(
    site: Site, caller: Operator, name: str, workspace: Workspace = None, if_match: IfMatch = None
) -> None:
    """Remove a definition; runs that are under way keep theirs."""
    await require_served(site, caller, workspace)
    await site.services.definitions().delete(name, version=_version(if_match), workspace=workspace)


def _name(text: str | None) -> str:
    """The name that a page begins behind; each one is behind the empty one."""
    name = "" if text is None else json.loads(text)
    if not isinstance(name, str):  # signed by an earlier version, which counted definitions
        raise foreign_cursor()
    return name


def _version(tag: str | None) -> str | None:
    return None if tag is None else tag.strip().removeprefix("W/").strip('"')


def _told(stored: StoredDefinition, response: Response) -> Definition:
    response.headers["etag"] = stored.etag
    return Definition(
        name=stored.name, origin=stored.origin, version=stored.version, fields=stored.fields
    )


def _line(stored: StoredDefinition) -> DefinitionLine:
    definition = stored.definition
    return DefinitionLine(
        name=stored.name,
        origin=stored.origin,
        version=stored.version,
        description=definition.description,
        roles=tuple(role.name for role in definition.roles),
        parameters=tuple(parameter.name for parameter in definition.parameters),
        takes=tuple(
            LoopParameter.model_validate(one.model_dump()) for one in definition.parameters
        ),
    )
