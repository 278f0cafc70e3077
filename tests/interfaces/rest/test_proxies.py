"""Clients behind a reverse proxy count each for themselves, and nobody names a foreign address."""

import pytest
from installation import Installation
from pydantic import ValidationError
from rest import Rest, client_of, served

from perdure.adapters.settings.variables import Settings
from perdure.interfaces.rest.settings import ApiRules

LOOPS, SIGN_IN = "/api/v1/loops", "/sign-in"


async def refused_addresses(door: Rest) -> set[str]:
    answer = await door.client.get("/api/v1/audit", params={"action": "login"})
    return {str(entry["about"]).rpartition(" ")[2] for entry in answer.json()["items"]}


async def test_a_trusted_proxy_names_its_clients(unmanned: Installation) -> None:
    async with (
        served(unmanned, ApiRules(rate_per_minute=20), None, ("127.0.0.0/8",)) as door,
        client_of(door.url, {}) as proxy,
    ):
        for one in ("203.0.113.7", "203.0.113.8, 127.0.0.2", "<script>", ""):
            asked = await proxy.get(LOOPS, headers={"x-forwarded-for": one})
            assert asked.status_code == 401
        assert await refused_addresses(door) == {
            "203.0.113.7", "203.0.113.8", "unknown", "127.0.0.1",
        }  # fmt: skip
        flood = {"x-forwarded-for": "198.51.100.1, 203.0.113.9"}
        last = [(await proxy.get(SIGN_IN, headers=flood)).status_code for _ in range(25)][-1]
        assert last == 429
        another = {"x-forwarded-for": "203.0.113.9, 198.51.100.1"}
        assert (await proxy.get(SIGN_IN, headers=another)).status_code == 200


async def test_tls_at_a_trusted_proxy_makes_cookies_secure(unmanned: Installation) -> None:
    async with (
        served(unmanned, proxies=("127.0.0.1",)) as door,
        client_of(door.url, {"x-forwarded-proto": "https"}) as proxy,
    ):
        signed_in = await proxy.post(SIGN_IN, data={"token": await door.token("read")})
        cookie = signed_in.headers["set-cookie"]
        assert cookie.startswith("__Host-perdure_session_") and "Secure" in cookie


async def test_nobody_else_names_an_address(door: Rest) -> None:
    async with client_of(door.url, {"x-forwarded-for": "203.0.113.7"}) as client:
        assert (await client.get(LOOPS)).status_code == 401
    assert await refused_addresses(door) == {"127.0.0.1"}


@pytest.mark.parametrize("wrong", ["proxy.example", "10.0.0.0/33", "*"])
def test_a_proxy_is_an_address_or_a_network(wrong: str) -> None:
    with pytest.raises(ValidationError, match="addresses or networks"):
        Settings.model_validate({"api_proxies": wrong})
    kept = Settings.model_validate({"api_proxies": "10.0.0.0/8, ::1"})
    assert kept.api_proxies == ("10.0.0.0/8", "::1")
