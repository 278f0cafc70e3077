"""The database stops and comes back: each view says what is away, and is there again by itself."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from page_visit import signed_in
from playwright.async_api import Browser, Page, expect
from postgresql import Postgresql, stoppable
from rest import APPROVED, ASKING, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

SOON_MS = 60_000
WORDS = "Only if the notes name the colour"


@pytest.fixture
async def away(
    server: WorkflowEnvironment, tmp_path: Path
) -> AsyncIterator[tuple[Rest, Postgresql]]:
    address = server.client.service_client.config.target_host
    with stoppable() as database:
        async with (
            scripted(tmp_path, address, ASKING, database_url=database.url) as site,
            site.worker(),
            served(site) as rest,
        ):
            yield rest, database


async def _asked(rest: Rest) -> str:
    """A run that waits for a person."""
    run = await rest.start(APPROVED)
    while (await rest.client.get(f"/api/v1/loops/{run}")).json()["lifecycle"] != "waiting":
        await asyncio.sleep(0.1)
    return run


async def _picture(tab: Page, name: str) -> None:
    if folder := os.environ.get("PICTURES"):
        await tab.screenshot(path=f"{folder}/{name.strip('/').replace('/', '-')}.png")


@pytest.mark.long
async def test_every_view_outlives_its_store(
    away: tuple[Rest, Postgresql], browser: Browser
) -> None:
    rest, database = away
    run, token = await _asked(rest), await rest.token("read")
    views = ["/inbox", "/runs", f"/runs/{run}", "/costs", "/library", "/experiments",
             "/schedules", "/new"]  # fmt: skip
    context = await browser.new_context()
    first = await signed_in(await context.new_page(), rest)
    open_tabs = [await context.new_page() for _ in views]
    for path, tab in zip(views, open_tabs, strict=True):
        await tab.goto(rest.url + path)
    said = open_tabs[2].get_by_label("Say something to it")
    await said.fill(WORDS)
    database.stop()
    try:
        late_tabs = [await context.new_page() for _ in views]
        for path, tab in zip(views, late_tabs, strict=True):
            answer = await tab.goto(rest.url + path)
            assert answer is not None and answer.status == 503, path
            await expect(tab.get_by_role("heading", level=1)).to_have_text(
                "The store does not answer"
            )
            await expect(tab.locator("main")).to_contain_text("Runs go on")
            await _picture(tab, f"late{path}")
        for path, tab in zip(views, open_tabs, strict=True):
            await tab.bring_to_front()
            notice = tab.locator("#connection")
            await expect(notice, path).to_contain_text("store does not answer", timeout=SOON_MS)
            await expect(notice).to_contain_text("No run fails by this")
            await _picture(tab, f"open{path}")
        await first.bring_to_front()
        await first.goto(f"{rest.url}/sign-in")
        await first.fill("#token", token)
        await first.press("#token", "Enter")
        await expect(first.locator("main")).to_contain_text("What you sent was not taken")
    finally:
        database.start()
    for path, tab in zip(views, open_tabs, strict=True):
        await tab.bring_to_front()
        await expect(tab.locator("#connection"), path).to_be_hidden(timeout=SOON_MS)
    await expect(said).to_have_value(WORDS)
    for path, tab in zip(views, late_tabs, strict=True):
        await tab.bring_to_front()
        heading = tab.get_by_role("heading", level=1)
        await expect(heading, path).not_to_contain_text("does not answer", timeout=SOON_MS)
        await expect(tab.locator("nav").first).to_be_visible()
    await late_tabs[0].bring_to_front()
    await expect(late_tabs[0].locator(f"#gate-{run}-g1")).to_be_visible(timeout=SOON_MS)
