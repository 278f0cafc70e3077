"""Signing in to the page at an identity provider, and who is not let in by it."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from identity_provider import Provider, provider, sign_on
from installation import Installation
from rest import Rest, served

from perdure.domain.installation.access import ApiToken, Scope
from perdure.domain.installation.single_sign_on import token_id
from perdure.interfaces.rest.settings import ApiRules
from perdure.interfaces.web.cookies import cookie_name

GROUPS: Mapping[str, tuple[Scope, ...]] = {"engineers": ("read", "answer"), "boss": ("admin",)}
START = "/sign-in/provider?next=/runs%3Fkind%3Dagent"


@pytest.fixture
async def known() -> AsyncIterator[Provider]:
    async with provider() as found:
        yield found


@pytest.fixture
async def rest(bare: Installation, known: Provider) -> AsyncIterator[Rest]:
    async with served(bare, single_sign_on=sign_on(known, GROUPS)) as found:
        yield found


async def led_back(guest: httpx2.AsyncClient, start: str = START) -> str:
    """Go to the provider; the address to which it leads back."""
    answer = await guest.get(start)
    assert answer.status_code == 303, answer.text
    there = await guest.get(answer.headers["location"])
    return there.headers["location"]


async def token_of(rest: Rest, known: Provider) -> ApiToken | None:
    return await rest.api.services.access.token(token_id(known.issuer, str(known.person["sub"])))


async def test_who_signed_in_there_is_in_here(
    rest: Rest, known: Provider, guest: httpx2.AsyncClient
) -> None:
    assert urlsplit_host(known.issuer) in (await guest.get("/sign-in")).text
    answer = await guest.get(await led_back(guest))
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?kind=agent")
    for flag in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert flag in answer.headers["set-cookie"]
    page = await guest.get("/runs")
    assert page.status_code == 200
    assert "alice@example.org" in page.text
    found = await token_of(rest, known)
    assert found is not None
    assert (found.name, found.scopes) == ("alice@example.org", ("read", "answer"))
    assert found.expires_at is not None
    assert found.expires_at < datetime.now(UTC) + timedelta(hours=13)


async def test_what_alice_may_not_do_is_refused(
    known: Provider, guest: httpx2.AsyncClient, rest: Rest
) -> None:
    await guest.get(await led_back(guest))
    page = (await guest.get("/runs")).text
    key = page.split('name="form_key" value="')[1][:64]
    origin = {"origin": rest.url, "sec-fetch-site": "same-origin"}
    answer = await guest.post("/runs/x/pause", data={"form_key": key}, headers=origin)
    assert answer.status_code == 403
    assert "alice@example.org" in answer.text


async def test_the_same_person_is_the_same_token(
    rest: Rest, known: Provider, guest: httpx2.AsyncClient
) -> None:
    await guest.get(await led_back(guest))
    first = await token_of(rest, known)
    async with httpx2.AsyncClient(base_url=rest.url, timeout=60, trust_env=False) as phone:
        await phone.get(await led_back(phone))
        assert (await phone.get("/runs")).status_code == 200
    assert (await guest.get("/runs")).status_code == 200, "the first browser stays signed in"
    second = await token_of(rest, known)
    assert first is not None
    assert second is not None
    assert (first.id, first.digest) == (second.id, second.digest)


async def test_other_groups_end_the_sessions_of_before(
    rest: Rest, known: Provider, guest: httpx2.AsyncClient
) -> None:
    known.person["groups"] = ["boss"]
    await guest.get(await led_back(guest))
    known.person["groups"] = ["engineers"]
    async with httpx2.AsyncClient(base_url=rest.url, timeout=60, trust_env=False) as phone:
        await phone.get(await led_back(phone))
        assert (await phone.get("/runs")).status_code == 200
    assert (await guest.get("/runs")).status_code == 303
    found = await token_of(rest, known)
    assert found is not None
    assert found.scopes == ("read", "answer")


async def test_who_is_shut_out_stays_out(
    rest: Rest, known: Provider, guest: httpx2.AsyncClient
) -> None:
    await guest.get(await led_back(guest))
    found = await token_of(rest, known)
    assert found is not None
    await rest.api.services.access.revoke_token(found.id, at=datetime.now(UTC))
    assert (await guest.get("/runs")).status_code == 303
    answer = await guest.get(await led_back(guest))
    assert answer.status_code == 403
    assert "revoked" in answer.text


@pytest.mark.parametrize("groups", [[], ["cooks"], None, ["*"]])
async def test_somebody_without_a_group_of_ours_is_told_so(
    rest: Rest, known: Provider, guest: httpx2.AsyncClient, groups: object
) -> None:
    known.person["groups"] = groups
    answer = await guest.get(await led_back(guest))
    assert answer.status_code == 403
    assert "PERDURE_OIDC_GROUPS" in answer.text
    assert await token_of(rest, known) is None
    assert (await guest.get("/runs")).status_code == 303


async def test_an_answer_in_another_browser_opens_nothing(
    rest: Rest, guest: httpx2.AsyncClient
) -> None:
    """Whoever is led to an answer of somebody else must not become that person."""
    back = await led_back(guest)
    async with httpx2.AsyncClient(base_url=rest.url, timeout=60, trust_env=False) as victim:
        answer = await victim.get(back)
        assert answer.status_code == 401
        assert "did not begin in this browser" in answer.text
        await led_back(victim)
        assert (await victim.get(back)).status_code == 403, "of another sign-in"
        assert (await victim.get("/runs")).status_code == 303


async def test_an_answer_is_good_once(rest: Rest, guest: httpx2.AsyncClient) -> None:
    back = await led_back(guest)
    name = cookie_name("sign_in", await rest.api.services.access.signing_key(), secure=False)
    kept = guest.cookies[name]
    assert (await guest.get(back)).status_code == 303
    async with httpx2.AsyncClient(base_url=rest.url, timeout=60, trust_env=False) as other:
        answer = await other.get(back, headers={"cookie": f"{name}={kept}"})
    assert answer.status_code == 403
    assert "set-cookie" in answer.headers
    assert "perdure_session" not in answer.headers["set-cookie"]


async def test_the_way_back_is_asked_for_once_more(guest: httpx2.AsyncClient) -> None:
    """A browser keeps the strict cookie back while another site leads it here."""
    back = await led_back(guest)
    answer = await guest.get(back, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 200
    assert 'http-equiv="refresh"' in answer.text
    assert (await guest.get(back)).status_code == 303


@pytest.mark.parametrize("next", ["https://elsewhere.example/", "//elsewhere.example", "x", ""])
async def test_the_way_back_leads_nowhere_else(guest: httpx2.AsyncClient, next: str) -> None:
    back = await led_back(guest, f"/sign-in/provider?next={next}")
    assert (await guest.get(back)).headers["location"] == "/"


async def test_a_provider_that_is_away_leaves_the_token(
    known: Provider, guest: httpx2.AsyncClient
) -> None:
    known.away = True
    answer = await guest.get(START)
    assert answer.status_code == 503
    assert "API token" in answer.text
    assert 'name="token"' in answer.text


async def test_what_the_provider_refuses_is_shown_as_text(
    known: Provider, guest: httpx2.AsyncClient
) -> None:
    known.refuses = "<script>alert(1)</script>"
    answer = await guest.get(await led_back(guest))
    assert answer.status_code == 403
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;" in answer.text


async def test_without_a_provider_there_is_no_such_page(bare: Installation) -> None:
    async with (
        served(bare) as plain,
        httpx2.AsyncClient(base_url=plain.url, timeout=60, trust_env=False) as guest,
    ):
        assert (await guest.get("/sign-in/provider")).status_code == 404
        assert (await guest.get("/sign-in/provider/back?code=x")).status_code == 404
        assert "/sign-in/provider" not in (await guest.get("/sign-in")).text


async def test_behind_a_proxy_the_way_back_is_the_pages_own_address(
    bare: Installation, known: Provider
) -> None:
    rules = ApiRules(page_url="https://loops.example.org")
    async with (
        served(bare, rules, sign_on(known, GROUPS)) as behind,
        httpx2.AsyncClient(base_url=behind.url, timeout=60, trust_env=False) as guest,
    ):
        answer = await guest.get(START)
        assert (
            "redirect_uri=https%3A%2F%2Floops.example.org%2Fsign-in" in answer.headers["location"]
        )
        assert "Secure" in answer.headers["set-cookie"]


async def test_behind_a_proxy_with_tls_that_is_trusted_one_is_let_in_without_a_page_url(
    bare: Installation, known: Provider
) -> None:
    tls = {"x-forwarded-proto": "https"}
    async with (
        served(bare, None, sign_on(known, GROUPS), proxies=("127.0.0.1",)) as behind,
        httpx2.AsyncClient(base_url=behind.url, timeout=60, trust_env=False) as guest,
    ):
        left = await guest.get(START, headers=tls)
        cookie = left.headers["set-cookie"].partition(";")[0]
        back = (await guest.get(left.headers["location"])).headers["location"]
        assert back.startswith("https://")
        back = back.replace("https:", "http:", 1)  # the proxy speaks plain HTTP with the page
        answer = await guest.get(back, headers={**tls, "cookie": cookie})
    assert answer.status_code == 303, answer.text
    cookies = answer.headers.get_list("set-cookie")
    assert cookie.startswith("__Host-")
    assert cookies[0].startswith("__Host-perdure_session")


def urlsplit_host(url: str) -> str:
    return url.partition("://")[2]
