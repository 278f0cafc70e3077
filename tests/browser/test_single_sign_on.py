"""Signing in at a provider of another site, in a browser that keeps strict cookies back."""

from identity_provider import provider, sign_on
from page_visit import session_cookie
from playwright.async_api import async_playwright, expect
from rest import served
from web_ui import ARGUMENTS, find_browser


async def test_the_way_there_and_back(stage):
    run = stage.scenes.accepted
    async with (
        provider() as known,
        served(stage.site, single_sign_on=sign_on(known, {"engineers": ("read",)})) as rest,
        async_playwright() as started,
    ):
        browser = await started.chromium.launch(
            executable_path=find_browser(), args=list(ARGUMENTS)
        )
        page = await browser.new_page()
        await page.goto(f"{rest.url}/runs/{run}")
        await page.get_by_role("link", name="Sign in with localhost").click()
        await page.wait_for_url(f"**/runs/{run}")
        await expect(page.get_by_text("alice@example.org")).to_be_visible()
        await expect(page.get_by_role("button", name="Fork")).to_have_count(0)
        kept = await page.context.cookies(rest.url)
        assert [(one.get("name"), one.get("sameSite"), one.get("httpOnly")) for one in kept] == [
            (
                await session_cookie(rest),
                "Strict",
                True,
            )  # and what was kept for the way back is gone
        ]
        await browser.close()
