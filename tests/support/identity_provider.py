"""A small OpenID Connect provider on loopback, which can also lie in every way that it has."""

import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from perdure.adapters.openid import OpenIdProvider
from perdure.domain.installation.access import Scope
from perdure.domain.installation.single_sign_on import SingleSignOn
from perdure.interfaces.rest.server import serve

CLIENT_ID = "perdure"
CLIENT_SECRET = "a secret: of+the/provider%20and the page ✓"
KEY = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})
STRANGE_KEY = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})


@dataclass
class Provider:
    """Signs in whoever `person` is, without asking.

    Args:
        issuer: its address.
        person: the claims of whoever sits before the browser.
        claims: replace those of the identity token; None leaves one out.
        told: claims that only the userinfo endpoint has.
        document: replaces parts of the discovery document.
        key: signs identities.
        algorithm: of the signature; `none` and `HS256` with the client's secret are lies.
        refuses: the error with which it leads back.
    """

    issuer: str
    person: dict[str, object]
    claims: dict[str, object] = field(default_factory=dict)
    told: dict[str, object] = field(default_factory=dict)
    document: dict[str, object] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: KEY)
    algorithm: str = "RS256"
    refuses: str = ""
    away: bool = False
    codes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    tokens: int = 0

    @property
    def app(self) -> Starlette:
        """Its four endpoints and the discovery document."""
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discovery),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/keys", self._keys),
                Route("/userinfo", self._userinfo),
            ]
        )

    async def _discovery(self, _: Request) -> Response:
        if self.away:
            return Response("down for maintenance", status_code=503)
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                **self.document,
            }
        )

    async def _authorize(self, request: Request) -> Response:
        asked = request.query_params
        assert (asked["client_id"], asked["response_type"]) == (CLIENT_ID, "code")
        assert asked["code_challenge_method"] == "S256"
        if self.refuses:
            answer = {"error": self.refuses, "error_description": "the person said no"}
        else:
            answer = {"code": secrets.token_urlsafe(8)}
            self.codes[answer["code"]] = dict(asked)
        back = {**answer, "state": asked["state"]}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", status_code=302)

    async def _token(self, request: Request) -> Response:
        form = await request.form()
        asked = self.codes.pop(str(form["code"]), None)  # each code is good once
        shown = hashlib.sha256(str(form.get("code_verifier", "")).encode()).digest()
        challenge = _base64(shown)
        if (
            asked is None
            or not self._is_client(request.headers.get("authorization"), form)
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form["redirect_uri"]
        ):
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        self.tokens += 1
        given = {"access_token": "opaque", "token_type": "Bearer", "expires_in": 60}
        return JSONResponse({**given, "id_token": self._identity(asked["nonce"])})

    def _is_client(self, header: str | None, form: Mapping[str, object]) -> bool:
        """Whether the client shows its secret as the discovery document says."""
        basic = f"{CLIENT_ID}:{quote_plus(CLIENT_SECRET)}".encode()
        if self.document.get("token_endpoint_auth_methods_supported") != ["client_secret_post"]:
            return header == "Basic " + base64.b64encode(basic).decode()
        shown = form.get("client_id"), form.get("client_secret")
        return header is None and shown == (CLIENT_ID, CLIENT_SECRET)

    def _identity(self, nonce: str) -> str:
        now = int(time.time())
        fixed = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": nonce}
        claims = {**fixed, **self.person, **self.claims}
        kept = {name: value for name, value in claims.items() if value is not None}
        if self.algorithm == "none":
            parts = ({"alg": "none"}, kept)
            return ".".join((*(_base64(json.dumps(part).encode()) for part in parts), ""))
        key = OctKey.import_key(CLIENT_SECRET) if self.algorithm.startswith("HS") else self.key
        header = {"alg": self.algorithm, "kid": "first"}
        return jwt.encode(header, kept, key, algorithms=[self.algorithm])

    async def _keys(self, _: Request) -> Response:
        return JSONResponse({"keys": [KEY.as_dict(private=False)]})

    async def _userinfo(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer opaque"
        return JSONResponse({"sub": self.person["sub"], **self.told})


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def sign_on(known: Provider, groups: Mapping[str, tuple[Scope, ...]]) -> SingleSignOn:
    """What an installation is handed that uses this provider."""
    client = OpenIdProvider(known.issuer, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    return SingleSignOn(provider=client, groups=groups)


def alice(**claims: object) -> dict[str, object]:
    """Somebody in one group."""
    return {"sub": "u-1", "email": "alice@example.org", "groups": ["engineers"], **claims}


@asynccontextmanager
async def provider(**person: object) -> AsyncGenerator[Provider]:
    """A provider on a free port of `localhost`: to a browser, another site than the page."""
    found = Provider(issuer="", person=alice(**person))
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve(found.app, host="127.0.0.1", port=0, stop=stop, on_ready=ready.set_result)
    )
    try:
        found.issuer = f"http://localhost:{urlsplit(await ready).port}"
        yield found
    finally:
        stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task
