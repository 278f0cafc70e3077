"""A provider that says the truth, and one that lies in every way that it has."""

from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from identity_provider import CLIENT_ID, CLIENT_SECRET, STRANGE_KEY, Provider, alice

from perdure.adapters.openid import OpenIdProvider
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, ServiceUnavailable
from perdure.domain.installation.single_sign_on import Attempt, Person

ISSUER = "http://localhost:9"
BACK = "http://127.0.0.1:8237/sign-in/provider/back"
ATTEMPT = Attempt(state="s" * 32, nonce="n" * 32, verifier="v" * 48, back=BACK)


def client(known: Provider, issuer: str = ISSUER) -> OpenIdProvider:
    return OpenIdProvider(
        issuer,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        transport=httpx2.ASGITransport(app=known.app),
    )


async def answered(known: Provider, attempt: Attempt = ATTEMPT) -> str:
    """The address to which the provider leads back."""
    address = await client(known).address(attempt)
    transport = httpx2.ASGITransport(app=known.app)
    async with httpx2.AsyncClient(transport=transport) as browser:
        return (await browser.get(address)).headers["location"]


METHODS = [[], ["client_secret_post"], ["client_secret_basic", "client_secret_post"]]


@pytest.mark.parametrize("methods", METHODS)
async def test_a_person_is_who_the_provider_says(methods: list[str]) -> None:
    document = {"token_endpoint_auth_methods_supported": methods} if methods else {}
    known = Provider(ISSUER, alice(), document={**document})
    found = await client(known).person(ATTEMPT, await answered(known))
    assert found == Person(subject="u-1", name="alice@example.org", groups=("engineers",))


async def test_the_way_there_carries_no_secret() -> None:
    address = await client(Provider(ISSUER, alice())).address(ATTEMPT)
    asked = parse_qs(urlsplit(address).query)
    assert asked["scope"] == ["openid profile email"]
    assert asked["redirect_uri"] == [BACK]
    assert CLIENT_SECRET not in address
    assert ATTEMPT.verifier not in address


@pytest.mark.parametrize(
    ("told", "groups"),
    [
        ({"groups": ["a", "b"]}, ("a", "b")),
        ({"groups": "a"}, ("a",)),
        ({"groups": None}, ()),
        ({"groups": {"a": 1}}, ()),
        ({"sub": "somebody else", "groups": ["boss"]}, ()),
    ],
)
async def test_groups_that_only_userinfo_has(
    told: dict[str, object], groups: tuple[str, ...]
) -> None:
    known = Provider(ISSUER, alice(groups=None), told=told)
    found = await client(known).person(ATTEMPT, await answered(known))
    assert found.groups == groups


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({}, "alice@example.org"),
        ({"email": None, "preferred_username": "al"}, "al"),
        ({"email": "  ", "name": "Alice"}, "Alice"),
        ({"email": None}, "u-1"),
        ({"email": 7}, "u-1"),
    ],
)
async def test_what_a_person_is_called(claims: dict[str, object], name: str) -> None:
    known = Provider(ISSUER, alice(), claims=claims)
    assert (await client(known).person(ATTEMPT, await answered(known))).name == name


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://elsewhere.example"},
        {"iss": None},
        {"aud": "another client"},
        {"aud": None},
        {"aud": ["another", CLIENT_ID], "azp": "another"},
        {"exp": 1_000},
        {"exp": None},
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"sub": None},
        {"nbf": 4_000_000_000},
    ],
    ids=str,
)
async def test_an_identity_that_is_not_meant_for_this_sign_in_is_refused(
    claims: dict[str, object],
) -> None:
    known = Provider(ISSUER, alice(), claims=claims)
    back = await answered(known)
    with pytest.raises(NotAllowed):
        await client(known).person(ATTEMPT, back)


@pytest.mark.parametrize(
    "lie", [{"key": STRANGE_KEY}, {"algorithm": "HS256"}, {"algorithm": "none"}]
)
async def test_a_signature_of_somebody_else_is_refused(lie: dict[str, object]) -> None:
    known = Provider(ISSUER, alice(), **lie)  # type: ignore[arg-type]
    back = await answered(known)
    with pytest.raises(NotAllowed, match="does not hold"):
        await client(known).person(ATTEMPT, back)


async def test_an_answer_is_good_once() -> None:
    known = Provider(ISSUER, alice())
    back = await answered(known)
    await client(known).person(ATTEMPT, back)
    with pytest.raises(NotAllowed, match="invalid_grant"):
        await client(known).person(ATTEMPT, back)


async def test_an_answer_of_another_attempt_is_refused() -> None:
    known = Provider(ISSUER, alice())
    back = await answered(known)
    for change in ({"verifier": "w" * 48}, {"state": "t" * 32}, {"nonce": "m" * 32}):
        with pytest.raises(NotAllowed):
            await client(known).person(ATTEMPT.model_copy(update=change), back)


async def test_what_the_provider_refuses_is_told() -> None:
    known = Provider(ISSUER, alice(), refuses="access_denied")
    with pytest.raises(NotAllowed, match=r"access_denied: the person said no"):
        await client(known).person(ATTEMPT, await answered(known))


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://elsewhere.example"},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:x"},
        {"token_endpoint": "https://["},
    ],
    ids=str,
)
async def test_a_provider_that_is_not_what_was_set_is_not_used(document: dict[str, object]) -> None:
    with pytest.raises(ServiceUnavailable):
        await client(Provider(ISSUER, alice(), document=document)).address(ATTEMPT)


async def test_a_provider_that_is_away_is_named() -> None:
    known = Provider(ISSUER, alice(), away=True)
    with pytest.raises(ServiceUnavailable, match=ISSUER) as caught:
        await client(known).address(ATTEMPT)
    assert "API token" in caught.value.cure


@pytest.mark.parametrize(
    "issuer",
    ["http://login.example.org", "https://", "login.example.org", "https://u:p@x.org", "https://["],
)
def test_an_issuer_that_others_could_speak_for_is_refused(issuer: str) -> None:
    with pytest.raises(InvalidInput, match="PERDURE_OIDC_ISSUER"):
        client(Provider(issuer, alice()), issuer)
