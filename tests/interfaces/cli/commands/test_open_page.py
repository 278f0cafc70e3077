"""`perdure open`: an address that signs in once, and what it says where there is no page."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.installation.access import ApiToken
from perdure.interfaces.web.session import Ticket
from tests.interfaces.cli import memory, samples
from tests.interfaces.cli.memory import ENDPOINTS, FakePart, FakeRuntime, Installation


@pytest.fixture
def world(tmp_path: Path) -> Installation:
    return Installation(folder=tmp_path, remembers=True)


def told(world: Installation) -> Mapping[str, str]:
    """The last JSON document of the output."""
    return json.loads(world.out.splitlines()[-1])


async def _ticket(world: Installation, url: str) -> tuple[Ticket | None, ApiToken]:
    fragment = parse_qs(urlsplit(url).fragment)["ticket"][0]
    stores = await open_stores(world.folder / "home")
    try:
        (token,) = await stores.access.tokens()
        key = await stores.access.signing_key()
    finally:
        await stores.close()
    return Ticket.read(fragment, key, now=datetime.now(UTC)), token


def test_the_address_holds_a_ticket_and_no_secret(world: Installation) -> None:
    assert world.run("open", "--url", "http://127.0.0.1:8237", "--scope", "answer", "--json") == 0
    url = told(world)["url"]
    assert urlsplit(url).path == "/sign-in"
    ticket, token = asyncio.run(_ticket(world, url))
    assert ticket is not None
    assert (ticket.token, ticket.digest) == (token.id, token.digest)
    assert token.scopes == ("answer",)
    assert token.expires_at == token.created_at + timedelta(minutes=2)


def test_the_address_has_no_empty_step(world: Installation) -> None:
    assert world.run("open", "--url", "https://h/perdure/", "--json") == 0
    assert urlsplit(told(world)["url"]).path == "/perdure/sign-in"


def test_the_address_leads_to_a_run_whose_id_has_a_plus(world: Installation) -> None:
    run = "backup+nightly"
    world.gateway.statuses[run] = samples.status(id=run)
    assert world.run("open", run, "--url", "http://127.0.0.1:8237", "--json") == 0
    (path,) = parse_qs(urlsplit(told(world)["url"]).query)["next"]
    assert "+" not in path
    assert unquote(path) == f"/runs/{run}"


def test_without_a_page_it_says_how_to_start_one(world: Installation) -> None:
    assert world.run("open") == 3
    assert "perdure up" in world.err
    assert "perdure api serve" in world.err


def test_an_address_where_nothing_answers_is_not_given(
    world: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = ENDPOINTS.model_copy(update={"api_url": "http://127.0.0.1:8237"})
    monkeypatch.setattr(memory, "ENDPOINTS", served)
    for status in ("failed", "running"):
        world.states = [FakeRuntime((FakePart("api", status, detail="exit code 1"),), served)]
        assert world.run("open", "--json") == (0 if status == "running" else 3)
        assert ("(failed: exit code 1)" in world.err) == (status == "failed")
    assert told(world)["url"].startswith(f"{served.api_url}/sign-in")
