"""Several runs that are steered by one form, which a double tap sends twice."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import JsonValue
from starlette.datastructures import FormData, QueryParams

from perdure.interfaces.rest.schemas import Runs
from perdure.interfaces.web.runs import routes
from perdure.interfaces.web.runs.routes import show, steer

RUNS = ("agent-a-1", "agent-b-1")


class Api:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, str] | None]] = []

    async def get(self, path: str, shape: object, query: object) -> Runs:
        return Runs(items=(), note="")

    async def post(
        self,
        path: str,
        shape: object,
        body: JsonValue = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.sent.append((path, headers))


def visit(api: Api) -> Any:
    return SimpleNamespace(
        api=api, wants_part=False, page=lambda _, **values: values, go=lambda path: path
    )


async def test_a_form_that_is_sent_twice_steers_each_run_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Api()

    async def form_of(_: object) -> FormData:
        return FormData([("run", run) for run in RUNS])

    monkeypatch.setattr(routes, "form_of", form_of)
    request: Any = SimpleNamespace(query_params=QueryParams())
    pages: list[Any] = [await show(request, visit(api)) for _ in range(2)]
    for page in (pages[0], pages[0], pages[1]):
        fields = {"once": page["once"], "here": "/runs"}
        assert await steer(request, visit(api), fields, "pause") == "/runs"
    first, again, other = api.sent[:2], api.sent[2:4], api.sent[4:]
    assert first == again
    assert [path for path, _ in first] == [f"/loops/{run}/pause" for run in RUNS]
    keys = [headers and headers["idempotency-key"] for _, headers in (*first, *other)]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    assert None not in keys
