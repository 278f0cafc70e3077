"""An unknown field is refused with the fields of the block that it stands in.

Whatever a body holds, its refusal is short: all other requests wait while it is written.
"""

import json
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from pydantic import JsonValue

from perdure.interfaces.rest.error_responses import (
    DEFECTS_TOLD,
    TEXT_CHARACTERS,
    Refused,
    as_it_is,
    document,
    handle_problems,
)
from perdure.interfaces.rest.schedules import ScheduleBody
from perdure.interfaces.rest.schemas import AmendBody

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
    (problem,) = (await refused(path, WHOLE | changed))["errors"]
    assert problem["path"] == place
    assert problem["message"].endswith(told)


async def refused(path: str, body: dict[str, JsonValue]) -> dict[str, Any]:
    """The problem document for a body that is not taken."""
    app = FastAPI()
    app.state.hide = as_it_is
    handle_problems(app)

    @app.post("/needed")
    async def _(body: ScheduleBody) -> None: ...

    @app.post("/optional")
    async def _(body: ScheduleBody | None = None) -> None: ...

    @app.post("/amend")
    async def _(body: AmendBody) -> None: ...

    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://api") as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == 422
    return answer.json()


async def test_a_long_name_is_cut_wherever_it_is_told() -> None:
    long = "x" * 2_000
    body: dict[str, JsonValue] = {**WHOLE, "times": {long: 1}}
    (problem,) = (await refused("/needed", body))["errors"]
    assert problem["path"] == f"times.{long[:79]}…"
    assert problem["message"].startswith(f"found the field {long[:79]}…; allowed: {TIMES}")


async def test_the_first_of_many_defects_are_listed_and_the_others_counted() -> None:
    wrong: list[JsonValue] = ["x" for _ in range(DEFECTS_TOLD + 7)]
    told = await refused("/amend", {"remove": wrong})
    assert [one["path"] for one in told["errors"]] == [f"remove[{n}]" for n in range(DEFECTS_TOLD)]
    assert told["detail"].endswith(" And 7 more.")


def test_a_refusal_of_the_interface_itself_is_short_too() -> None:
    long = "x" * (TEXT_CHARACTERS + 1)
    errors = [(f"field{n}", long) for n in range(DEFECTS_TOLD + 7)]
    answer = document(Refused(422, "invalid_input", long, errors=errors), instance="/")
    told = json.loads(bytes(answer.body))
    cut = f"{long[: TEXT_CHARACTERS - 1]}…"
    assert told["detail"] == f"{cut} And 7 more."
    assert [one["message"] for one in told["errors"]] == [cut] * DEFECTS_TOLD
