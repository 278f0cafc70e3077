"""A real browser on the Temporal Web UI: opening pages, filtering, reading panels, signalling."""

import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from playwright.async_api import Locator, Page, async_playwright, expect

NAMES = ("chromium", "chromium-browser", "google-chrome")
WAIT_MS = 30_000
# Without a sandbox: containers and root have no user namespaces, and only our own server is opened.
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
COLUMNS = "namespace-workflow-table-columns"


def find_browser() -> str | None:
    """The path of an installed Chromium or Chrome."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


@dataclass(frozen=True, slots=True)
class WebUI:
    """One tab on the Web UI at `url`."""

    page: Page
    url: str

    async def list(self, query: str = "") -> None:
        """Open the list of workflows, filtered."""
        asked = f"?query={quote(query)}" if query else ""
        await self._open(f"/workflows{asked}")
        await expect(self.page.locator("h1").first).to_contain_text("Workflow")

    async def listed(self) -> set[str]:
        """The ids in the list, once the table stopped loading."""
        rows = self.page.locator("table tbody tr")
        await expect(rows.or_(self.page.get_by_text("No Workflows")).first).to_be_visible()
        links = self.page.locator("table tbody a[href*='/workflows/']")
        paths = await links.evaluate_all("all => all.map(one => new URL(one.href).pathname)")
        return {path.split("/")[4] for path in paths}

    async def filter(self, query: str) -> None:
        """Type a query into the filter bar of the list and search."""
        await self.page.get_by_role("button", name="Query").or_(
            self.page.locator("#view-search-input, [aria-label*='iew search']")
        ).first.click()
        box = self.page.locator("#manual-search")
        await box.fill(query)
        await box.press("Enter")

    async def run(self, run: str) -> None:
        """Open a run's page."""
        await self._open(f"/workflows/{run}")
        await expect(self.page.get_by_role("heading", name=run)).to_be_visible()

    async def panel(self, run: str) -> Locator:
        """Open a run's current details and return the rendered Markdown."""
        await self.run(run)
        await self.page.get_by_text("User Metadata").first.click()
        frame = self.page.locator("iframe").last.content_frame
        await expect(frame.locator("h2").first).to_be_visible()
        return frame.locator("body")

    async def signal(self, name: str, data: str) -> None:
        """Send a signal by the form, as a person does."""
        page = self.page
        await page.get_by_role("button", name="More Actions").first.click()
        await page.locator("[data-testid=signal-button]:visible").first.click()
        await page.locator("[data-testid=signal-select]:visible").first.click(force=True)
        await page.locator("[role=option]:visible").filter(has_text=name).first.click()
        dialog = page.locator("[role=dialog]:visible, dialog[open]").first
        await dialog.locator("[contenteditable=true]").first.fill(data)
        submit = dialog.get_by_role("button", name="Submit")
        await submit.click()  # this one only reformats the JSON
        if await submit.is_visible():
            await submit.click()
        await expect(submit).to_be_hidden()

    async def columns(self, names: Mapping[str, bool]) -> None:
        """Choose the columns of the list; the value says whether a column is pinned."""
        chosen = [{"label": name, "pinned": pinned} for name, pinned in names.items()]
        await self._open("/workflows")
        await self.page.evaluate(
            "([key, columns]) => localStorage.setItem(key, JSON.stringify({default: columns}))",
            [COLUMNS, chosen],
        )

    async def _open(self, path: str) -> None:
        # The pages poll for ever: waiting for a quiet network would never end.
        await self.page.goto(
            f"{self.url}/namespaces/default{path}", wait_until="domcontentloaded"
        )


@asynccontextmanager
async def web_ui(url: str, *, width: int = 1280, height: int = 800) -> AsyncGenerator[WebUI]:
    """A headless browser with one tab."""
    expect.set_options(timeout=WAIT_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_browser(), args=list(ARGUMENTS)
        )
        try:
            page = await browser.new_page(viewport={"width": width, "height": height})
            page.set_default_timeout(WAIT_MS)
            yield WebUI(page, url)
        finally:
            await browser.close()
