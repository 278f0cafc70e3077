"""The REST door of a test installation: served on a port, with tokens and a client."""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import yaml
from installation import PATIENT, Installation, installation
from pydantic import JsonValue

from perdure.adapters.checks import check_problems
from perdure.composition import client_services
from perdure.domain.installation.access import ApiToken, Credentials, Scope, digest_of
from perdure.domain.installation.single_sign_on import SingleSignOn
from perdure.domain.ports import Endpoints
from perdure.gateway.types import Waits
from perdure.interfaces.rest.app import build_app
from perdure.interfaces.rest.server import serve
from perdure.interfaces.rest.settings import ApiRules, ApiSite
from perdure.interfaces.services import Services
from perdure.interfaces.web.app import ApiAndPages, build_pages
from perdure.submission.types import Surroundings

EVERY: tuple[Scope, ...] = ("admin",)
TASK: dict[str, JsonValue] = {"kind": "agent", "goal": "look around", "learn": False}
APPROVED: dict[str, JsonValue] = {**TASK, "tools": {"access": "full", "approve": ["fs.write"]}}
WRITTEN: dict[str, JsonValue] = {"path": "a.txt", "content": "x", "expected_hash": "absent"}
WRITE: dict[str, JsonValue] = {"name": "fs.write", "arguments": WRITTEN}
ASKING = {"replies": [{"tool_calls": [WRITE]}, {"text": "done"}], "exhausted": "repeat_last"}

ANSWERS = {"replies": [{"text": "an answer"}], "exhausted": "repeat_last"}


@dataclass
class Rest:
    """A served installation; `client` has a token for everything."""

    site: Installation
    url: str
    client: httpx2.AsyncClient
    api: ApiSite

    async def token(self, *scopes: Scope, **more: Any) -> str:
        """The text of a new token."""
        return await token_of(self.api, *scopes, **more)

    @asynccontextmanager
    async def caller(self, *scopes: Scope) -> AsyncGenerator[httpx2.AsyncClient]:
        """A client with a token of its own; without scopes it has none."""
        headers = {"authorization": f"Bearer {await self.token(*scopes)}"} if scopes else {}
        async with client_of(self.url, headers) as client:
            yield client

    async def start(self, spec: Mapping[str, object], **headers: str) -> str:
        """Start a run and return its id."""
        answer = await self.client.post("/api/v1/loops", json=dict(spec), headers=headers)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()["id"]

    async def ended(self, run: str) -> Mapping[str, object]:
        """Wait for the end of a run by following it, and return its result."""
        async with self.client.stream("GET", f"/api/v1/loops/{run}/events") as stream:
            async for line in stream.aiter_lines():
                if line == "event: ended":
                    break
        answer = await self.client.get(f"/api/v1/loops/{run}/result")
        assert answer.status_code == 200, answer.text
        return answer.json()


def services_of(site: Installation) -> Services:
    """What commands, API and pages are handed, with the gateway of the test."""
    endpoints = Endpoints(temporal_address=site.address, namespace="default", home=str(site.home))
    return replace(client_services.services_of(site.parts, endpoints), gateway=site.gateway)


async def token_of(
    api: ApiSite,
    *scopes: Scope,
    expires_at: datetime | None = None,
    revoked_at: datetime | None = None,
    runs: tuple[str, ...] = (),
    folders: tuple[str, ...] = (),
) -> str:
    """Keep a new token and return its text."""
    made = Credentials(id=secrets.token_hex(4), secret=secrets.token_urlsafe(32))
    token = ApiToken(
        id=made.id,
        name="test",
        scopes=scopes,
        digest=digest_of(made.secret),
        created_at=datetime.now(UTC),
        expires_at=expires_at,
        revoked_at=revoked_at,
        runs=runs,
        folders=folders,
    )
    await api.services.access.add_token(token)
    return made.text


def client_of(url: str, headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """A client that no proxy setting of the machine steers."""
    return httpx2.AsyncClient(base_url=url, headers=dict(headers), timeout=60, trust_env=False)


def api_site(
    site: Installation, rules: ApiRules | None = None, single_sign_on: SingleSignOn | None = None
) -> ApiSite:
    """An installation as the REST door sees it."""
    surroundings = Surroundings(
        folder=None, default_model=site.parts.default_model, rubric_problems=check_problems
    )
    return ApiSite(
        services=services_of(site),
        surroundings=surroundings,
        now=lambda: datetime.now(UTC),
        version="0.1.0",
        rules=rules or ApiRules(rate_per_minute=100_000),
        single_sign_on=single_sign_on,
    )


def api_and_pages(api: ApiSite) -> ApiAndPages:
    """The API and the pages, as one process serves them."""
    app = build_app(api)
    return ApiAndPages(api=app, pages=build_pages(api, app))


@asynccontextmanager
async def served(
    site: Installation,
    rules: ApiRules | None = None,
    single_sign_on: SingleSignOn | None = None,
    proxies: tuple[str, ...] = (),
) -> AsyncGenerator[Rest]:
    """Serve an installation on a free port."""
    api = api_site(site, rules, single_sign_on)
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        serve(
            api_and_pages(api),
            host="127.0.0.1",
            port=0,
            stop=stop,
            on_ready=ready.set_result,
            proxies=proxies,
        )
    )
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        url = await ready
        text = await token_of(api, *EVERY)
        async with client_of(url, {"authorization": f"Bearer {text}"}) as client:
            yield Rest(site, url, client, api)
    finally:
        stop.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def scripted(
    home: Path, address: str, script: Mapping[str, object], waits: Waits = PATIENT, **settings: str
) -> AsyncGenerator[Installation]:
    """An installation whose default model plays a script: over REST nobody may name one."""
    text = yaml.safe_dump(dict(script)).encode()
    model = f"scripted:sha256:{hashlib.sha256(text).hexdigest()}"
    async with installation(
        home, address, timing=None, waits=waits, model=model, **settings
    ) as site:
        assert await site.parts.stores.blobs.put(text) == model.removeprefix("scripted:")
        yield site
