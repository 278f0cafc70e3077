"""Views that need the whole of a list read it page by page."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from perdure.domain.installation.access import ApiToken
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.rest.definitions import DefinitionLine
from perdure.interfaces.rest.paging import LARGEST_PAGE, PAGE
from perdure.interfaces.web.api_calls import API, Api
from perdure.interfaces.web.rendering import templates
from perdure.interfaces.web.start.routes import look_over
from perdure.interfaces.web.start.task_form import TaskForm
from perdure.interfaces.web.tree.routes import ITERATIONS, show
from perdure.interfaces.web.visit import Visit

MANY = 2 * LARGEST_PAGE + 1
LAST = f"loop-{MANY:04}"
STAGE = {"name": "look", "role": "look", "status": "completed"}
TREE = {"id": "r", "kind": "roles", "goal": "look", "lifecycle": "running"}


def paged(path: str, items: Sequence[object], **more: object) -> Route:
    """A list as the API serves it: one page, and the cursor of the next one."""

    async def answer(request: Request) -> JSONResponse:
        query = request.query_params
        begin, limit = int(query.get("cursor", 0)), int(query.get("limit", PAGE))
        assert limit <= LARGEST_PAGE
        end = begin + limit
        following = str(end) if end < len(items) else None
        return JSONResponse({**more, "items": items[begin:end], "cursor": following})

    return Route(API + path, answer)


def whole(path: str, told: object) -> Route:
    return Route(API + path, lambda _: JSONResponse(told))


def visit_over(*routes: Route, **more: object) -> tuple[Visit, dict[str, object]]:
    """A visit over these lists, and what its page is filled with."""
    given: dict[str, object] = {}
    visit = SimpleNamespace(
        api=Api(Starlette(routes=routes), cast(ApiToken, None)),
        wants_part=True,
        page=lambda *_, **values: given.update(values),
        **more,
    )
    return cast(Visit, visit), given


async def test_a_loop_far_down_the_list_is_in_the_form_and_keeps_its_parameters() -> None:
    takes = [{"name": "depth"}]
    loops = [
        {"name": f"loop-{number:04}", "origin": "home", "version": "1", "takes": takes}
        for number in range(1, MANY + 1)
    ]
    visit, given = visit_over(
        paged("/loops/definitions", loops),
        whole("/tasks", {"items": []}),
        site=SimpleNamespace(rules=SimpleNamespace(body_bytes=1_000_000)),
    )
    fields = {"kind": "roles", "definition": LAST, "parameter:depth": "5", "fields": "yes"}
    await look_over(visit, fields, [])
    assert cast(TaskForm, given["form"]).parameters == {"depth": "5"}
    assert len(cast(list[DefinitionLine], given["definitions"])) == MANY


async def test_the_tree_shows_the_newest_stages_and_leads_to_the_others() -> None:
    records = [{"index": number, "stages": [STAGE]} for number in range(1, MANY + 1)]
    visit, given = visit_over(
        whole("/loops/r/tree", TREE), paged("/loops/r/history", records, id="r", kind="roles")
    )
    await show(visit, "r")
    stages = cast(tuple[IterationRecord, ...], given["stages"])
    assert [one.index for one in stages] == list(range(MANY, MANY - ITERATIONS, -1))
    told = templates().get_template("tree/part.html").render(**given)
    assert f"Show {MANY - ITERATIONS} older iterations" in told
