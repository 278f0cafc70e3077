"""What people write into a form and no request to the API can carry is refused by its place."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.domain.installation.access import ApiToken
from perdure.interfaces.web.api_calls import Api, ApiProblem
from perdure.interfaces.web.app import from_own_form
from perdure.interfaces.web.run.changes import budget_of, settings_of
from perdure.interfaces.web.schedules.schedule_form import ScheduleForm
from perdure.interfaces.web.visit import VISITOR

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def unasked(scope: object, receive: object, send: object) -> None:
    raise AssertionError("nothing is sent")


def api() -> Api:
    return Api(unasked, ApiToken(id="a", name="n", scopes=(), digest="0" * 64, created_at=NOW))


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"budget": budget_of({"cost_usd": "1e999"})}, "budget.cost_usd: found inf"),
        (ScheduleForm(every_hours="nan", task="goal: x").body(), "times.every_s: found nan"),
        (ScheduleForm(task="budget: {cost_usd: .inf}").body(), "task.budget.cost_usd: found inf"),
        ({"set": settings_of('a.b=["\\ud83d"]')}, "set.a.b[0]: found half a character"),
    ],
)
async def test_it_is_refused_by_its_place(body: Any, place: str) -> None:
    with pytest.raises(ApiProblem) as refused:
        await api().post("/anything", dict, body)
    assert refused.value.status == 422
    assert [line.startswith(place) for line in refused.value.problems] == [True]


@pytest.mark.parametrize("given", ["ключ", "\udc80", "0" * 64, ""])
async def test_a_form_of_another_session_is_refused_whatever_its_key(given: str) -> None:
    async def close() -> None: ...

    request: Any = SimpleNamespace(
        method="POST",
        url=SimpleNamespace(path="/runs/x/pause"),
        scope={VISITOR: SimpleNamespace(form_key="1" * 64)},
        close=close,
    )
    with pytest.raises(ApiProblem) as refused:
        await from_own_form(request, {"form_key": given})
    assert refused.value.status == 403
    await from_own_form(request, {"form_key": "1" * 64})
