"""The REST API as one of the embedded services."""

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from waiting import eventually

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.local_services import service_commands
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from perdure.local_services.logs import read_logs
from tests.local_services.support import kill, process_of

MakeRuntime = Callable[..., EmbeddedRuntime]


@pytest.mark.slow
async def test_it_serves_comes_back_and_ends(
    runtime_of: MakeRuntime, settings_of: Callable[..., Settings], home: Path
) -> None:
    runtime = runtime_of(api="on")
    endpoints = await runtime.ensure()
    assert endpoints.api_url is not None
    async with httpx2.AsyncClient(base_url=endpoints.api_url, trust_env=False) as client:
        assert (await client.get("/healthz")).text == "ok\n"
        assert (await client.get("/api/v1/loops")).status_code == 401
    before = process_of(await runtime.state(), "api")
    kill(before)
    await eventually(lambda: _serves_again(home, before.pid))
    assert (await runtime.ensure()).api_url == endpoints.api_url
    lines = [line.text async for line in read_logs(settings_of(api="on"), "api")]
    assert any(str(endpoints.api_url) in line for line in lines)
    assert await runtime.down()
    with pytest.raises(httpx2.HTTPError):
        httpx2.get(f"{endpoints.api_url}/healthz", trust_env=False)


def _serves_again(home: Path, dead: int) -> bool:
    from perdure.local_services.state import HomeFiles, read_state

    state = read_state(HomeFiles(home))
    part = state.part("api") if state is not None else None
    return part is not None and part.process is not None and part.process.pid != dead


@pytest.mark.parametrize(
    ("wish", "installed", "starts"),
    [("auto", True, True), ("auto", False, False), ("off", True, False), ("on", True, True)],
)
def test_it_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch,
    settings_of: Callable[..., Settings],
    wish: str,
    installed: bool,
    starts: bool,
) -> None:
    monkeypatch.setattr(service_commands, "has_api", lambda: installed)
    assert service_commands.wants_api(settings_of(api=wish)) is starts


def test_asked_for_and_missing_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, settings_of: Callable[..., Settings]
) -> None:
    monkeypatch.setattr(service_commands, "has_api", lambda: False)
    with pytest.raises(RuntimeUnavailable, match=r"perdure\[api\]"):
        service_commands.wants_api(settings_of(api="on"))
