"""The MCP door over HTTP: served on a port, with tokens, asked by the official client."""

import asyncio
import secrets
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from perdure.domain.installation.access import ApiToken, Credentials, digest_of
from perdure.interfaces.mcp.http_server import serve_http


async def told(client, tool, **arguments):
    """What a tool returned, as data; its text when it refused."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        return result.content[0].text
    return result.structured_content


@asynccontextmanager
async def serving(door):
    """The door over HTTP, with its address."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve_http(door.mcp, port=0, on_ready=ready.set_result, stop=stop))
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield await ready
    finally:
        stop.set()
        await task


async def token(door, *scopes, **more):
    """The text of a new token."""
    made = Credentials(id=secrets.token_hex(4), secret=secrets.token_urlsafe(32))
    kept = ApiToken(
        id=made.id,
        name="agent",
        scopes=scopes,
        digest=digest_of(made.secret),
        created_at=datetime.now(UTC),
        **more,
    )
    await door.site.parts.stores.access.add_token(kept)
    return made.text


@asynccontextmanager
async def remote(url, text, *, later=None, person=None):
    """The official client with a token; `later` another one, once the session is open.

    `person` answers what the server asks people.
    """
    headers = {"authorization": f"Bearer {text}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http,
        Client(
            streamable_http_client(url, http_client=http), elicitation_callback=person
        ) as client,
    ):
        http.headers["authorization"] = f"Bearer {later or text}"
        yield client
