"""The API in a process of its own, as `perdure up` runs it, and people who open its page."""

import asyncio
import os
import re
import secrets
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx2
import psutil

from benchmarks.processes import ended
from benchmarks.site import Site
from perdure.adapters.settings.variables import inherited_environment
from perdure.domain.installation.access import ApiToken, Credentials, Scope, digest_of

START_S, LOOK_S = 60.0, 0.1
SERVING = re.compile(r"http://[0-9.]+:\d+")


@dataclass(frozen=True, slots=True)
class Served:
    """The API in its process, and where it answers."""

    url: str
    process: psutil.Process

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        times = self.process.cpu_times()
        return times.user + times.system


@asynccontextmanager
async def served(site: Site) -> AsyncGenerator[Served]:
    """Start the API over the stores of a site; its CPU time can be told apart."""
    log = site.folder / "api.log"
    environment = {
        **inherited_environment(minimal=True),
        "TEMPORAL_ADDRESS": site.client.service_client.config.target_host,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "PERDURE_HOME": str(site.folder / "home"),
        "PERDURE_API_RATE_PER_MINUTE": "1000000",
    }
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "perdure", "api", "serve"),
            *("--host", "127.0.0.1", "--port", "0"),
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        async with asyncio.timeout(START_S):
            while not (found := SERVING.search(log.read_text(encoding="utf-8"))):
                if process.returncode is not None:
                    raise RuntimeError(f"The API ended:\n{log.read_text(encoding='utf-8')}")
                await asyncio.sleep(LOOK_S)
        yield Served(found[0], psutil.Process(process.pid))
    finally:
        await ended(process)


@asynccontextmanager
async def visitor(site: Site, api: Served) -> AsyncGenerator[httpx2.AsyncClient]:
    """Somebody who signed in, with a token of their own."""
    token = await token_of(site, "read")
    async with httpx2.AsyncClient(base_url=api.url, timeout=60, trust_env=False) as client:
        answer = await client.post("/sign-in", data={"token": token})
        if not answer.has_redirect_location:
            raise RuntimeError(f"The page let nobody in: {answer.status_code}.")
        yield client


async def token_of(site: Site, *scopes: Scope) -> str:
    """The text of a new token."""
    made = Credentials(id=secrets.token_hex(4), secret=secrets.token_urlsafe(32))
    token = ApiToken(
        id=made.id,
        name=f"visitor-{made.id}",
        scopes=scopes,
        digest=digest_of(made.secret),
        created_at=datetime.now(UTC),
    )
    await site.stores.access.add_token(token)
    return made.text
