"""A person looks what all runs cost, chooses other lines and days, and takes the table along."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from account_books import Books
from axe_playwright_python.async_playwright import Axe
from installation import Installation
from playwright.async_api import Page, async_playwright, expect
from rest import Rest, served
from web_ui import ARGUMENTS, find_browser


@pytest.fixture
async def rest(bare: Installation) -> AsyncIterator[Rest]:
    async with served(bare) as found:
        yield found


@pytest.fixture
async def page(rest: Rest) -> AsyncIterator[Page]:
    """A narrow tab of somebody who signed in."""
    async with async_playwright() as started:
        browser = await started.chromium.launch(
            executable_path=find_browser(), args=list(ARGUMENTS)
        )
        page = await browser.new_page(viewport={"width": 360, "height": 800})
        await page.goto(f"{rest.url}/runs")
        await page.fill("#token", await rest.token("admin"))
        await page.press("#token", "Enter")
        await page.wait_for_url("**/runs")
        yield page
        await browser.close()


async def test_the_table_is_chosen_and_taken_along(rest, page, monkeypatch):
    monkeypatch.setattr("account_books.FIRST", datetime.now(UTC))
    books = Books(rest.site.parts.stores.database)
    await books.run("a", label="=1+1")
    await books.call("0.5", root="a")
    await page.get_by_role("link", name="Costs").click()
    await page.get_by_role("link", name="Last 7 days").click()
    await page.get_by_role("link", name="By label").click()
    await expect(page.get_by_role("row", name="=1+1")).to_contain_text("$0.50")
    assert "by=label" in page.url
    wide = await page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 360
    found = await Axe().run(page)
    serious = [
        one for one in found.response["violations"] if one["impact"] in {"serious", "critical"}
    ]
    assert serious == [], found.generate_report()
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download as CSV").click()
    file = await (await started.value).path()
    assert "\n'=1+1,1,10," in Path(file).read_text(encoding="utf-8")
    await page.get_by_label("From").fill("2020-01-01")
    await page.get_by_label("To", exact=True).fill("2020-01-31")
    await page.get_by_role("button", name="Show").click()
    await expect(page.get_by_text("No model was called from 2020-01-01")).to_be_visible()
