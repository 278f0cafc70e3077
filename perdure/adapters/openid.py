"""Signs people in with OpenID Connect: authorization code with PKCE, and signed identities."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, cast
from urllib.parse import parse_qs, quote_plus, urlsplit

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, KeySetSerialization
from pydantic import BaseModel, ValidationError

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, ServiceUnavailable
from perdure.domain.installation.hosts import is_loopback
from perdure.domain.installation.single_sign_on import Attempt, Person, checked_groups

DISCOVERY = "/.well-known/openid-configuration"
TIMEOUT_S = 10.0
LEEWAY_S = 60  # the clocks of the provider and of this host may differ
# Without `none`, and without HMAC, whose key would be the client's own secret.
ALGORITHMS = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
]  # fmt: skip
BASIC, POST = "client_secret_basic", "client_secret_post"
NAMES = ("email", "preferred_username", "name")
AGAIN = "Sign in once more."


class Metadata(BaseModel):
    """The fields of the provider's discovery document that are used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] = [BASIC]


class _Client(Protocol):
    """The methods of authlib's client that are used; the library has no types."""

    def create_authorization_url(self, url: str, **given: str) -> tuple[str, str]: ...

    def client_auth(self, auth_method: str) -> httpx2.Auth: ...

    async def fetch_token(
        self, url: str, *, auth: httpx2.Auth, **given: str
    ) -> Mapping[str, object]: ...

    async def request(
        self, method: str, url: str, *, withhold_token: bool, follow_redirects: bool
    ) -> httpx2.Response: ...

    async def aclose(self) -> None: ...


class OpenIdProvider:
    """One provider.

    Args:
        issuer: its issuer address; https, or http on loopback.
        client_id: the id of this installation at the provider.
        client_secret: the secret of that id.
        groups_claim: the claim with the groups of a person.
        scope: the scopes to ask for, such as `openid profile email`.
        transport: replaces the network in tests.

    Raises:
        InvalidInput: the issuer is not such an address.
    """

    def __init__(
        self,
        issuer: str,
        *,
        client_id: str,
        client_secret: str,
        groups_claim: str = "groups",
        scope: str = "openid profile email",
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        if not _private(issuer):
            raise InvalidInput(
                f"PERDURE_OIDC_ISSUER: found {issuer!r}; allowed: an https address.",
                cure="Give the issuer as the provider names it, as https://login.example.org.",
            )
        self._issuer = issuer
        self._client_id, self._client_secret = client_id, client_secret
        self._groups_claim, self._scope = groups_claim, scope
        self._transport = transport

    @property
    def issuer(self) -> str:
        return self._issuer

    async def address(self, attempt: Attempt) -> str:
        """The address where the browser signs in."""
        async with self._client(attempt) as client:
            found = await self._metadata(client)
            url, _ = client.create_authorization_url(
                found.authorization_endpoint,
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
            )
        return url

    async def person(self, attempt: Attempt, answer: str) -> Person:
        """The person who signed in, from the provider's answer to the browser."""
        told = parse_qs(urlsplit(answer).query)
        if "error" in told:
            raise _refused(" ".join(told["error"]), " ".join(told.get("error_description", [])))
        async with self._client(attempt) as client:
            found = await self._metadata(client)
            try:
                given = await client.fetch_token(
                    found.token_endpoint,
                    auth=self._shown(client, found),
                    authorization_response=answer,
                    state=attempt.state,
                    code_verifier=attempt.verifier,
                    grant_type="authorization_code",
                )
            except AuthlibBaseError as error:
                raise _refused(error.error, error.description) from None
            except (httpx2.HTTPError, ValueError) as error:
                raise self._away(error) from None
            claims = await self._identity(client, found, given, nonce=attempt.nonce)
            if self._groups_claim not in claims and found.userinfo_endpoint:
                # What was signed goes before what was only sent.
                claims = {**await self._more(client, found.userinfo_endpoint, claims), **claims}
        subject = str(claims["sub"])
        names = (claims.get(name) for name in NAMES)
        name = next((one for one in names if isinstance(one, str) and one.strip()), subject)
        groups = claims.get(self._groups_claim)
        # Some providers send a single group as a bare text.
        held = groups if isinstance(groups, list) else () if groups is None else (groups,)
        return Person(subject=subject, name=name, groups=checked_groups(held))

    def _shown(self, client: _Client, found: Metadata) -> httpx2.Auth:
        """The id and its secret, in a header or in the form: whatever the provider takes."""
        if BASIC not in found.token_endpoint_auth_methods_supported:
            return client.client_auth(POST)
        # As in a form (RFC 6749, section 2.3.1), which the library leaves out.
        return httpx2.BasicAuth(quote_plus(self._client_id), quote_plus(self._client_secret))

    @asynccontextmanager
    async def _client(self, attempt: Attempt) -> AsyncGenerator["_Client"]:
        client = cast(
            "_Client",
            AsyncOAuth2Client(
                self._client_id,
                self._client_secret,
                scope=self._scope,
                redirect_uri=attempt.back,
                code_challenge_method="S256",
                timeout=TIMEOUT_S,
                leeway=0,  # the access token is used at once, even if it expires soon
                transport=self._transport,
            ),
        )
        try:
            yield client
        finally:
            await client.aclose()

    async def _metadata(self, client: _Client) -> Metadata:
        url = self._issuer.rstrip("/") + DISCOVERY
        try:
            found = Metadata.model_validate(await self._json(client, url))
        except ValidationError as error:
            raise self._away(error) from None
        used = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri)
        # To the letter, as the issuer of an identity is compared with the same text.
        if found.issuer != self._issuer or not all(map(_private, used)):
            raise ServiceUnavailable(
                f"The identity provider at {self._issuer} names itself {found.issuer[:200]!r}, or "
                "an address without https.",
                cure="Set PERDURE_OIDC_ISSUER to the issuer exactly as the provider names it.",
            )
        return found

    async def _identity(
        self, client: _Client, found: Metadata, given: Mapping[str, object], *, nonce: str
    ) -> dict[str, object]:
        """The claims of the identity token, if signature, issuer, audience, nonce and time hold."""
        document = await self._json(client, found.jwks_uri)
        rules = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_S,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self._client_id},
            sub={"essential": True},
            exp={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            keys = KeySet.import_key_set(cast("KeySetSerialization", document))
            token = jwt.decode(str(given.get("id_token", "")), keys, algorithms=ALGORITHMS)
            rules.validate(token.claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise NotAllowed(
                f"The identity that the provider sent does not hold: {str(error)[:300]}", cure=AGAIN
            ) from None
        if token.claims.get("azp", self._client_id) != self._client_id:
            raise NotAllowed("The identity is meant for another client.", cure=AGAIN)
        return dict(token.claims)

    async def _more(
        self, client: _Client, url: str, claims: Mapping[str, object]
    ) -> dict[str, object]:
        """The claims of the userinfo endpoint, if they are about the same person."""
        if not _private(url):
            return {}
        more = await self._json(client, url, signed_in=True)
        return more if more.get("sub") == claims["sub"] else {}

    async def _json(
        self, client: _Client, url: str, *, signed_in: bool = False
    ) -> dict[str, object]:
        try:
            answer = await client.request(
                "GET", url, withhold_token=not signed_in, follow_redirects=False
            )
            answer.raise_for_status()
            found = answer.json()
        except (httpx2.HTTPError, AuthlibBaseError, ValueError) as error:
            raise self._away(error) from None
        if not isinstance(found, dict):
            raise self._away(TypeError(f"{url} is no JSON object"))
        return found

    def _away(self, error: Exception) -> ServiceUnavailable:
        told = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        return ServiceUnavailable(
            f"The identity provider at {self._issuer} does not answer as expected ({told}).",
            cure="Try again; an API token works meanwhile.",
        )


def _refused(error: str | None, description: str | None) -> NotAllowed:
    told = ": ".join(part for part in (error, description) if part)
    return NotAllowed(
        f"The identity provider refused the sign-in: {told[:300] or 'no reason'}.", cure=AGAIN
    )


def _private(url: str) -> bool:
    """Whether nobody else can read what is sent to an address: https, or loopback."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as `https://[`
        return False
    if parts.username or parts.password or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
