"""The start form on a phone, by keyboard, and with a refusal."""

import pytest
from page_visit import signed_in
from playwright.async_api import Browser, Page, expect
from rest import Rest

PHONE = {"width": 390, "height": 844}
SCREENS = 2


@pytest.fixture
async def phone(browser: Browser, rest: Rest) -> Page:
    context = await browser.new_context(viewport=PHONE)  # pyright: ignore[reportArgumentType]
    page = await signed_in(await context.new_page(), rest)
    await page.goto(f"{rest.url}/new")
    return page


async def test_goal_choice_and_button_are_within_two_screens(phone: Page):
    for seen in (
        phone.get_by_label("What should be done"),
        phone.get_by_role("link", name="code-change"),
        phone.locator("select[name=definition]"),
        phone.get_by_role("button", name="See what it could cost"),
    ):
        box = await seen.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= SCREENS * PHONE["height"]
    assert await phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


async def test_a_group_opens_by_keyboard_and_where_it_was_refused(phone: Page):
    cost = phone.get_by_label("Most to spend, in USD")
    await expect(cost).to_be_hidden()
    await phone.locator("#group-limits > summary").focus()
    await phone.keyboard.press("Enter")
    await expect(cost).to_be_visible()
    await cost.fill("much")
    await phone.locator("#group-limits > summary").focus()
    await phone.keyboard.press("Space")
    await expect(cost).to_be_hidden()
    await phone.get_by_label("What should be done").fill("Name a fruit.")
    await phone.get_by_role("button", name="See what it could cost").click()
    await expect(phone.get_by_role("alert")).to_contain_text("cost_usd")
    await expect(cost).to_have_value("much")
    await expect(cost).to_be_visible()
    await expect(phone.get_by_label("Longest length")).to_be_hidden()
