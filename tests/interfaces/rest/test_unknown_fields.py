"""An unknown field is refused with the fields of the block that it stands in."""

import httpx2
import pytest
from fastapi import FastAPI
from pydantic import JsonValue

from perdure.interfaces.rest.error_responses import as_it_is, handle_problems
from perdure.interfaces.rest.schedules import ScheduleBody

WHOLE: dict[str, JsonValue] = {"name": "news", "task": {}, "times": {"every_s": 60}}
TIMES = "one of cron, every_s, jitter_s, offset_s, time_zone"


@pytest.mark.parametrize("path", ["/needed", "/optional"])
@pytest.mark.parametrize(
    ("changed", "place", "told"),
    [
        ({"times": {"crn": []}}, "times.crn", f"{TIMES}. Did you mean cron?"),
        ({"month": {"usd": 3}}, "month.usd", "one of cost_usd, tokens"),
        ({"monht": {}}, "monht", "replace, task, times. Did you mean month?"),
    ],
)
async def test_it_is_refused_with_the_names_of_its_block(
    path: str, changed: dict[str, JsonValue], place: str, told: str
) -> None:
    app = FastAPI()
    app.state.hide = as_it_is
    handle_problems(app)

    @app.post("/needed")
    async def _(body: ScheduleBody) -> None: ...

    @app.post("/optional")
    async def _(body: ScheduleBody | None = None) -> None: ...

    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://api") as client:
        answer = await client.post(path, json=WHOLE | changed)
    (problem,) = answer.json()["errors"]
    assert (answer.status_code, problem["path"]) == (422, place)
    assert problem["message"].endswith(told)
