"""The guard of the Web UI before a real one: pages with other names get nothing, people all."""

import socket
from collections.abc import AsyncIterator

import httpx2
import pytest
from half_sent import half_sent
from installation import dev_server
from temporalio.client import Client

from perdure.adapters.http_server import LOOPBACK, choose
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.local_services.ui_guard import Inside, UiGuard, inside_for

SETTINGS = "/api/v1/settings"


@pytest.fixture(scope="module")
async def guarded() -> AsyncIterator[tuple[int, Client]]:
    """The port of a guard before a real Web UI, and a client of the server behind it."""
    inside = choose()
    async with dev_server(ui_port=inside, prepared=False) as server:
        guard = UiGuard(Inside(LOOPBACK, inside), names=frozenset({"perdure.test"}))
        yield await guard.open(0), server.client
        await guard.close()


def _client(port: int) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=f"http://{LOOPBACK}:{port}", trust_env=False, timeout=60)


@pytest.mark.parametrize("host", ["127.0.0.1:8233", "localhost", "[::1]:9", "perdure.test"])
async def test_people_get_the_ui_by_its_names(guarded: tuple[int, Client], host: str) -> None:
    port, _ = guarded
    async with _client(port) as client:
        page = await client.get("/", headers={"host": host}, follow_redirects=False)
        assert page.status_code in {200, 307, 308}
        settings = await client.get(SETTINGS, headers={"host": host})
        assert settings.json()["Version"]


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "evil.example:8233", "origin": "http://evil.example:8233"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost.evil.example"},
    ],
    ids=["rebound", "a beginning of ours", "rebound with origin", "cross origin", "null", "like"],
)
async def test_a_page_of_another_name_reads_and_signals_nothing(
    guarded: tuple[int, Client], headers: dict[str, str]
) -> None:
    port, _ = guarded
    signal = "/api/v1/namespaces/default/workflows/no-such-run/signal/answer"
    async with _client(port) as browser:
        for answer in (
            await browser.get(SETTINGS, headers=headers),
            await browser.get("/api/v1/namespaces", headers=headers),
            await browser.post(signal, json={"input": {}}, headers=headers),
        ):
            assert answer.status_code in {403, 421}
            assert "set-cookie" not in answer.headers and "Version" not in answer.text


async def test_a_body_comes_through_whole(guarded: tuple[int, Client]) -> None:
    port, _ = guarded
    start = "/api/v1/namespaces/default/workflows/by-the-guard"
    async with _client(port) as browser:
        first = await browser.get(SETTINGS)
        csrf = first.cookies["_csrf"]
        body = {
            "workflowType": {"name": "Nothing"},
            "taskQueue": {"name": "nobody"},
            "memo": {"fields": {}},
            "identity": "x" * 200_000,
        }
        answer = await browser.post(
            start, json=body, headers={"x-csrf-token": csrf, "origin": f"http://localhost:{port}"}
        )
    assert answer.status_code != 421 and "Host" not in answer.text
    assert answer.headers["content-type"].startswith("application/json")


async def test_who_holds_it_open_shuts_nobody_out(guarded: tuple[int, Client]) -> None:
    port, _ = guarded
    async with half_sent(port, 600), _client(port) as browser:
        assert (await browser.get(SETTINGS)).status_code == 200


def test_the_place_behind_the_guard_cannot_be_guessed() -> None:
    drawn = {inside_for(8233, platform="linux") for _ in range(20)}
    assert len(drawn) == 20
    assert all(place.host.startswith("127.") and place.host != LOOPBACK for place in drawn)
    elsewhere = inside_for(8233, platform="darwin")
    assert (elsewhere.host, elsewhere.port == 8233) == (LOOPBACK, False)


async def test_a_port_that_a_neighbour_took_meanwhile_is_replaced() -> None:
    with socket.socket() as neighbour:
        neighbour.bind((LOOPBACK, 0))
        neighbour.listen()
        taken, free = neighbour.getsockname()[1], choose()
        places = iter([(taken, inside_for(taken)), (free, inside_for(free))])
        guard = await UiGuard.before(lambda: next(places), names=frozenset())
        with socket.create_connection((LOOPBACK, free)):
            pass
        await guard.close()


async def test_without_any_port_it_says_which_setting_helps() -> None:
    with socket.socket() as neighbour:
        neighbour.bind((LOOPBACK, 0))
        neighbour.listen()
        taken = neighbour.getsockname()[1]
        with pytest.raises(RuntimeUnavailable, match="PERDURE_UI_PORT"):
            await UiGuard.before(lambda: (taken, inside_for(taken)), names=frozenset())
