"""The plot of an experiment has the colours of the page, light and dark."""

import re

import pytest
from page_visit import signed_in
from playwright.async_api import Browser, expect
from rest import Rest

WHITE = "rgb(255, 255, 255)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_plot_has_the_colours_of_the_page(browser: Browser, rest: Rest, scheme: str):
    context = await browser.new_context(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
    page = await signed_in(await context.new_page(), rest)
    await page.goto(f"{rest.url}/experiments")
    await page.locator("table a").first.click()
    chart = page.locator(".chart")
    await expect(chart.get_by_role("img")).to_have_accessible_name(re.compile("mean best score"))
    styles = "(one, name) => getComputedStyle(one)[name]"
    paper = await chart.evaluate(styles, "backgroundColor")
    assert (paper == WHITE) == (scheme == "light")
    assert await chart.locator(".back").evaluate(styles, "fill") == "none"
    ink = await page.locator("body").evaluate(styles, "color")
    assert await chart.locator("text.word").first.evaluate(styles, "fill") == ink
    line = await chart.locator("polyline.line0").evaluate(styles, "stroke")
    assert (line == "rgb(11, 110, 79)") == (scheme == "light")
