"""A real browser on the Temporal Web UI: opening pages, filtering, reading panels, signalling."""

import contextlib
import re
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from playwright.async_api import Locator, Page, TimeoutError, async_playwright, expect

NAMES = ("chromium", "chromium-browser", "google-chrome")
WAIT_MS = 300_000
PRESSES = 10
PRESS_MS = 2_000
# Without a sandbox: containers and root have no user namespaces, and only our own server is opened.
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
COLUMNS = "namespace-workflow-table-columns"
SUBMIT = "[data-testid=confirm-modal-button]:visible"


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

    @property
    def rows(self) -> Locator:
        """The rows of the list."""
        return self.page.locator("table tbody tr:has(a[href*='/workflows/'])")

    async def listed(self) -> set[str]:
        """The ids in the list."""
        links = self.rows.locator("a[href*='/workflows/']")
        paths: list[str] = await links.evaluate_all(
            "all => all.map(one => new URL(one.href).pathname)"
        )
        return {path.split("/")[4] for path in paths}

    async def color_behind(self, text: Locator) -> tuple[int, int, int]:
        """The colour that a word stands on: its own background, or the nearest one around it."""
        await expect(text).to_be_visible()
        shown: str = await text.evaluate(
            """start => {
                for (let one = start; one; one = one.parentElement) {
                    const color = getComputedStyle(one).backgroundColor;
                    if (!color.endsWith(", 0)")) return color;
                }
                return "rgb(255, 255, 255)";
            }"""
        )
        red, green, blue = (int(part) for part in re.findall(r"\d+", shown)[:3])
        return red, green, blue

    async def filter(self, query: str) -> None:
        """Type a query into the filter bar of the list and search."""
        page = self.page
        await page.get_by_test_id("toggle-manual-query").click()
        box = page.get_by_test_id("workflow-manual-search-input")
        await box.fill(query)
        await box.press("Enter")
        await expect(page).to_have_url(re.compile(r"[?&]query="))

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

    async def signal(self, name: str, data: str | None = None) -> None:
        """Send a signal by the form, as a person does.

        Args:
            name: one of the list, or any other, which is typed.
            data: one JSON value; without it the form's input is left empty.
        """
        await self.signal_form(name)
        page = self.page
        if data is not None:
            editor = page.locator(".cm-content[contenteditable=true]:visible").last
            await editor.fill(data)
            # Leaving the input formats it and moves the button: a click would fall beside it.
            await editor.blur()
        submit = page.locator(SUBMIT)
        await submit.click()
        await expect(submit).to_have_count(0)

    async def signal_form(self, name: str) -> None:
        """Open the form for a signal of this name."""
        page = self.page
        entry = page.locator("[data-testid=signal-button]:visible").first
        await self._press_until(page.get_by_role("button", name="More Actions").first, entry)
        await entry.click()
        await page.locator("[data-testid=signal-select]:visible").first.click(force=True)
        options = page.locator("[role=option]:visible")
        await expect(options.first).to_be_visible()
        listed = options.filter(has=page.get_by_text(name, exact=True))
        if await listed.count():
            await listed.click()
        else:
            await options.filter(has=page.get_by_text("Custom", exact=True)).click()
            await page.locator("[data-testid=signal-name]:visible").fill(name)

    async def start(self, kind: str, queue: str, run: str, task: str) -> None:
        """Start a workflow by the form, as a person does."""
        await self._open("/workflows/start-workflow")
        page = self.page
        for name, value in (("workflowId", run), ("taskQueue", queue), ("workflowType", kind)):
            await page.locator(f"#{name}").fill(value)
        editor = page.locator(".cm-content[contenteditable=true]:visible").first
        await editor.fill(task)
        await editor.blur()
        await page.get_by_test_id("start-workflow-button").click()
        # The form stays, and a toast links to what was started.
        await expect(page.locator(f"a[href*='/workflows/{run}']").first).to_be_visible()

    async def columns(self, names: Mapping[str, bool]) -> None:
        """Choose the columns of the list; the value says whether a column is pinned."""
        chosen = [{"label": name, "pinned": pinned} for name, pinned in names.items()]
        await self._open("/workflows")
        await self.page.evaluate(
            "([key, columns]) => localStorage.setItem(key, JSON.stringify({default: columns}))",
            [COLUMNS, chosen],
        )

    async def _press_until(self, button: Locator, shown: Locator) -> None:
        """Click until it has its effect: a page drawn a moment ago does not listen yet."""
        for _ in range(PRESSES):
            await button.click()
            with contextlib.suppress(TimeoutError):
                await shown.wait_for(timeout=PRESS_MS)
                return
        raise AssertionError(f"clicking {button} showed no {shown}")

    async def _open(self, path: str) -> None:
        # The pages poll for ever: waiting for a quiet network would never end.
        await self.page.goto(f"{self.url}/namespaces/default{path}", wait_until="domcontentloaded")


def patient(page: Page) -> None:
    """Let what is done in a tab, and all expectations, wait as long as a busy machine needs."""
    expect.set_options(timeout=WAIT_MS)
    page.set_default_timeout(WAIT_MS)


@asynccontextmanager
async def web_ui(url: str, *, width: int = 1280, height: int = 800) -> AsyncGenerator[WebUI]:
    """A headless browser with one tab."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_browser(), args=list(ARGUMENTS)
        )
        try:
            page = await browser.new_page(viewport={"width": width, "height": height})
            patient(page)
            yield WebUI(page, url)
        finally:
            await browser.close()
