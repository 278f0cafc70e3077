"""A person reads what a run proposes for later ones, and decides, by keyboard alone."""

from collections.abc import AsyncIterator

import pytest
from axe_playwright_python.async_playwright import Axe
from installation import Installation
from playwright.async_api import Page, async_playwright, expect
from proposals import ACCEPTED, propose
from rest import Rest, served
from web_ui import ARGUMENTS, find_browser


@pytest.fixture
async def rest(bare: Installation) -> AsyncIterator[Rest]:
    async with served(bare) as found:
        yield found


@pytest.fixture
async def page(rest: Rest) -> AsyncIterator[Page]:
    """A narrow, dark tab of somebody who signed in."""
    async with async_playwright() as started:
        browser = await started.chromium.launch(
            executable_path=find_browser(), args=list(ARGUMENTS)
        )
        page = await browser.new_page(viewport={"width": 360, "height": 800}, color_scheme="dark")
        await page.goto(f"{rest.url}/runs")
        await page.fill("#token", await rest.token("admin"))
        await page.press("#token", "Enter")
        await page.wait_for_url("**/runs")
        yield page
        await browser.close()


async def test_a_skill_is_read_named_and_approved(rest, page):
    await propose(rest.site.parts.stores)
    await page.get_by_role("link", name="Library").press("Enter")
    await page.get_by_role("link", name=f"notes@{ACCEPTED}").press("Enter")
    await expect(page.get_by_text("Write <script>alert(1)</script>").first).to_be_visible()
    found = await Axe().run(page)
    violations = found.response["violations"]
    serious = [one for one in violations if one["impact"] in {"serious", "critical"}]
    assert serious == [], found.generate_report()
    await page.get_by_label("Name of the skill").fill("House notes")
    await page.get_by_role("button", name="Approve").press("Enter")
    card = page.locator("article", has_text="house-notes")
    await expect(card.get_by_text("in use")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360


async def test_a_rejection_is_confirmed_first(rest, page):
    await propose(rest.site.parts.stores)
    await page.goto(f"{rest.url}/library?shelf=pattern")
    asked: list[str] = []

    async def agree(dialog):
        asked.append(dialog.message)
        await dialog.accept()

    page.on("dialog", agree)
    await page.get_by_role("button", name="Reject").press("Enter")
    await expect(page.locator("article .state")).to_have_text("rejected")
    assert asked == ["Reject docs? It is not proposed again."]
