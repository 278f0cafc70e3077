"""`doctor` on providers: only those that are set up, each with its cure."""

import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from perdure.adapters.settings.providers import CompatibleServer
from perdure.adapters.settings.variables import Settings
from perdure.operations.doctor_providers import providers


class Lists(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        known = self.headers.get("authorization") == "Bearer right"
        self.send_response(200 if known and self.path == "/v1/models" else 401)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with HTTPServer(("127.0.0.1", 0), Lists) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def told(**given: object) -> dict[str, tuple[str, str]]:
    checks = [check async for check in providers(Settings.load(**given))]
    return {check.name: (check.state, f"{check.found} {check.cure}") for check in checks}


async def test_what_nobody_set_up_is_not_mentioned() -> None:
    assert await told() == {}


async def test_a_key_is_not_tried() -> None:
    found = await told(openai_api_key="sk-o")
    assert found["provider openai"] == ("ok", "a key is set (not tried) ")


async def test_half_of_azure_names_the_rest() -> None:
    state, words = (await told(azure_openai_endpoint="https://mine.example"))["provider azure"]
    assert state == "warning"
    assert "Set AZURE_OPENAI_API_KEY." in words


@pytest.mark.parametrize(
    ("key", "state", "words"),
    [
        ("right", "ok", "answers"),
        ("wrong", "warning", "Check BOX_KEY."),
        ("", "warning", "Set BOX_KEY."),
    ],
)
async def test_a_compatible_server_is_asked_for_its_models(
    url: str, key: str, state: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOX_KEY", key)
    box = CompatibleServer(url=url, key_variable="BOX_KEY")
    found = (await told(providers={"box": box}))["provider compat:box"]
    assert found[0] == state
    assert words in found[1]


async def test_a_server_that_is_away_is_a_warning() -> None:
    box = CompatibleServer(url="http://127.0.0.1:9/v1")
    state, words = (await told(providers={"box": box}))["provider compat:box"]
    assert state == "warning"
    assert "does not answer" in words


@pytest.mark.parametrize("key", ["right", "wrong"])
async def test_a_password_in_the_address_of_a_server_is_not_told(
    url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOX_KEY", key)
    for place in (url, "http://127.0.0.1:9/v1"):
        named = place.replace("://", "://ann:hunter2@")
        box = CompatibleServer(url=named, key_variable="BOX_KEY")
        _, words = (await told(providers={"box": box}))["provider compat:box"]
        assert place.removeprefix("http://") in words
        assert "hunter2" not in words
