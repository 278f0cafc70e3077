"""What a bound token needs to start a run below its folders is open to it."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from perdure.domain.installation.access import ApiToken
from perdure.interfaces.rest.app import ROUTERS
from perdure.interfaces.rest.auth_middleware import CALLER
from perdure.interfaces.rest.callers import FOR_BOUND, require_within_reach
from perdure.interfaces.rest.error_responses import Refused

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOKEN = ApiToken(
    id="a", name="n", scopes=("operate",), digest="0" * 64, created_at=NOW, folders=("/a",)
)


def request(method: str, path: str) -> Any:
    scope = {CALLER: TOKEN, "route": SimpleNamespace(path=path)}
    return SimpleNamespace(scope=scope, path_params={}, method=method)


# What the page asks for before it shows its form of a start.
@pytest.mark.parametrize("path", ["/loops/definitions", "/tasks", "/tasks/{name}", "/gates"])
async def test_the_form_of_a_start_can_be_shown(path: str) -> None:
    known = {getattr(route, "path", "") for router in ROUTERS for route in router.routes}
    assert f"/api/v1{path}" in known
    assert ("GET", f"/api/v1{path}") in FOR_BOUND
    await require_within_reach(request("GET", f"/api/v1{path}"))


async def test_what_is_of_all_runs_stays_closed() -> None:
    with pytest.raises(Refused):
        await require_within_reach(request("GET", "/api/v1/costs"))
