"""What has a long name can be asked for by it."""

from typing import get_type_hints

import pytest
from fastapi import Depends, FastAPI
from httpx2 import ASGITransport, AsyncClient

from perdure.interfaces.rest.costs import asked_calls
from perdure.interfaces.rest.runs import LabelWord, list_runs
from perdure.interfaces.rest.schemas import ForkBody, PatchBody


@pytest.mark.parametrize("name", ["label", "owner", "model"])
async def test_the_runs_behind_a_line_of_costs_are_found_by_its_name(name: str) -> None:
    app = FastAPI()
    app.add_api_route("/costs", lambda only: only, dependencies=[Depends(asked_calls)])
    async with AsyncClient(transport=ASGITransport(app=app), base_url="http://api") as client:
        given = {name: "ключ " * 100, "only": "x"}
        answer = await client.get("/costs", params=given)
    assert answer.status_code == 200, answer.text


def test_runs_are_listed_by_every_label_that_an_edit_may_give() -> None:
    assert get_type_hints(list_runs, include_extras=True)["label"] == LabelWord
    app = FastAPI()

    @app.get("/loops")
    async def _(label: LabelWord = None) -> None: ...

    (asked,) = app.openapi()["paths"]["/loops"]["get"]["parameters"]
    most = asked["schema"]["anyOf"][0]["maxLength"]
    for body in (PatchBody, ForkBody):
        (text,) = [
            one
            for one in body.model_json_schema()["properties"]["label"]["anyOf"]
            if one["type"] == "string"
        ]
        assert text["maxLength"] <= most
