"""Two people watch one run in the browser, and one of them answers it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from page_visit import answered_by_mouse, signed_in
from playwright.async_api import Browser, Page, expect
from rest import APPROVED, ASKING, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

SOON_MS = 60_000


@pytest.fixture
async def rest(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path, address, ASKING) as site, site.worker(), served(site) as found:
        yield found


async def _person(browser: Browser, rest: Rest, run: str) -> Page:
    page = await signed_in(await (await browser.new_context()).new_page(), rest)
    await page.goto(f"{rest.url}/runs/{run}")
    # What is gone after a reload tells whether there was one.
    await page.evaluate("window.stayed = true")
    return page


async def test_what_one_person_answers_the_other_sees_without_a_reload(
    rest: Rest, browser: Browser
) -> None:
    run = await rest.start(APPROVED)
    ann, ben = [await _person(browser, rest, run) for _ in range(2)]
    for page in (ann, ben):
        await expect(page.get_by_role("button", name="Approve")).to_be_visible(timeout=SOON_MS)
    keys = [await page.locator("#now [name=form_key]").first.input_value() for page in (ann, ben)]
    assert keys[0] != keys[1], "each has the key of the own session"
    await answered_by_mouse(ann.get_by_role("button", name="Approve"))
    for page in (ann, ben):
        accepted = page.locator(".sentence .state")
        await expect(accepted).to_have_text("accepted", timeout=SOON_MS)
        await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    assert await ben.evaluate("window.stayed") is True


async def test_a_page_of_a_session_that_is_over_leads_to_the_sign_in(
    rest: Rest, browser: Browser
) -> None:
    run = await rest.start(APPROVED)
    page = await _person(browser, rest, run)
    await page.context.clear_cookies()
    await page.wait_for_url("**/sign-in?next=*", timeout=SOON_MS)
    assert run in page.url


async def test_the_first_run_comes_to_an_empty_list(rest: Rest, browser: Browser) -> None:
    page = await signed_in(await browser.new_page(), rest)
    await expect(page.get_by_text("There is no run yet.")).to_be_visible()
    run = await rest.start(APPROVED)
    await expect(page.locator(f"[id='row-{run}']")).to_be_visible(timeout=SOON_MS)
    assert page.url.rstrip("?") == f"{rest.url}/runs"
