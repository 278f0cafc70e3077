"""A server that is away or refuses: each view keeps what it shows, says so, and goes on."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from page_visit import signed_in
from playwright.async_api import Browser, Page, Route, expect
from rest import APPROVED, ASKING, Rest, api_and_pages, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.interfaces.rest.server import serve

SOON_MS = 60_000
WORDS = "Only if the notes name the colour"


@pytest.fixture
async def rest(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path, address, ASKING) as site, site.worker(), served(site) as found:
        yield found


@dataclass
class Door:
    """The API and the page at a port that stays the same."""

    rest: Rest
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Answer within the block; afterwards nobody does."""
        stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        app = api_and_pages(self.rest.api)
        serving = asyncio.create_task(
            serve(app, host="127.0.0.1", port=self.port, stop=stop, on_ready=ready.set_result)
        )
        await ready
        try:
            yield
        finally:
            stop.set()
            with contextlib.suppress(asyncio.CancelledError):
                await serving


@pytest.fixture
def door(rest: Rest) -> Door:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Door(rest, probe.getsockname()[1])


async def _asked(rest: Rest) -> str:
    """A run that waits for a person."""
    run = await rest.start(APPROVED)
    while (await rest.client.get(f"/api/v1/loops/{run}")).json()["lifecycle"] != "waiting":
        await asyncio.sleep(0.1)
    return run


async def test_every_view_says_that_the_server_is_away(door: Door, browser: Browser) -> None:
    run = await _asked(door.rest)
    views = ["/inbox", "/runs", f"/runs/{run}", "/costs"]
    context = await browser.new_context()
    tabs: list[Page] = []
    async with door.open():
        first = await signed_in(await context.new_page(), replace(door.rest, url=door.url))
        for path in views:
            tabs.append(await context.new_page())
            await tabs[-1].goto(door.url + path)
        said = tabs[2].get_by_label("Say something to it")
        await said.fill(WORDS)
        for tab in tabs:
            await expect(tab.locator("#connection")).to_be_hidden()
        await first.close()
    for path, tab in zip(views, tabs, strict=True):
        await tab.bring_to_front()
        notice = tab.locator("#connection")
        await expect(notice, path).to_be_visible(timeout=SOON_MS)
        await expect(notice).to_contain_text("Not up to date since")
        await expect(notice).to_contain_text("does not answer")
    await expect(tabs[0].locator(f"#gate-{run}-g1")).to_be_visible()
    async with door.open():
        for path, tab in zip(views, tabs, strict=True):
            await tab.bring_to_front()
            await expect(tab.locator("#connection"), path).to_be_hidden(timeout=SOON_MS)
        await expect(tabs[0].locator(f"#gate-{run}-g1")).to_be_visible()
        await expect(said).to_have_value(WORDS)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_refused_poll_wipes_nothing(rest: Rest, browser: Browser, status: int) -> None:
    run = await _asked(rest)
    page = await signed_in(await browser.new_page(), rest)
    await page.goto(f"{rest.url}/inbox")
    card = page.locator(f"#gate-{run}-g1")
    await expect(card).to_be_visible()
    # Nothing but a swap takes it away.
    await page.locator("#cards").evaluate(
        "one => one.insertAdjacentHTML('beforeend', '<textarea></textarea>')"
    )
    await page.locator("#cards > textarea").fill(WORDS)

    async def refuse(route: Route) -> None:
        if route.request.headers.get("hx-request") == "true":
            await route.fulfill(status=status, content_type="text/html", body="<p>Away.</p>")
        else:
            await route.continue_()

    await page.route("**/inbox*", refuse)
    notice = page.locator("#connection")
    await expect(notice).to_contain_text(f"error {status}", timeout=SOON_MS)
    await expect(notice).to_be_visible()
    await expect(card).to_be_visible()
    await expect(page.locator("#cards > textarea")).to_have_value(WORDS)
    await page.unroute("**/inbox*")
    await expect(notice).to_be_hidden(timeout=SOON_MS)
    await expect(page.locator("#cards > textarea")).to_have_value(WORDS)


async def test_a_stream_that_never_began_begins_later(rest: Rest, browser: Browser) -> None:
    run = await _asked(rest)
    page = await signed_in(await browser.new_page(), rest)
    away = {"is": True}

    async def refuse(route: Route) -> None:
        if away["is"]:
            await route.fulfill(status=503, content_type="text/html", body="<p>Away.</p>")
        else:
            await route.continue_()

    await page.route("**/live", refuse)
    await page.goto(f"{rest.url}/runs/{run}")
    await expect(page.locator("#connection")).to_be_visible(timeout=SOON_MS)
    await expect(page.locator(f"#gate-{run}-g1")).to_be_visible()
    away["is"] = False
    await expect(page.locator("#connection")).to_be_hidden(timeout=SOON_MS)
    stop = await rest.client.post(f"/api/v1/loops/{run}/stop", json={"mode": "now"})
    assert stop.status_code < 300, stop.text
    await expect(page.locator(".sentence .state")).to_have_text("stopped", timeout=SOON_MS)
