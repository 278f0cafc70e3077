"""Files in the start form, by a person with a browser, with scripts and without."""

import pytest
from page_visit import signed_in, unfold
from pictures import pdf, png
from playwright.async_api import Browser, FilePayload, expect
from rest import Rest

PICTURE: FilePayload = {"name": "<b>chart.png", "mimeType": "image/png", "buffer": png(40, 30)}
PAPER: FilePayload = {"name": "paper.pdf", "mimeType": "application/pdf", "buffer": pdf(2)}
EVIL: FilePayload = {"name": "evil.png", "mimeType": "image/png", "buffer": b"MZ\x90\0"}
TEXT: FilePayload = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"Mind the axis."}


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
async def test_files_are_chosen_looked_over_and_left_out(
    stage, rest: Rest, browser: Browser, scripts: bool
):
    model = await stage.site.script({"replies": [{"text": "It rises."}]})
    context = await browser.new_context(java_script_enabled=scripts)
    page = await signed_in(await context.new_page(), rest)
    await page.goto(f"{rest.url}/new")
    await page.get_by_label("What should be done").fill("Read the chart.")
    await page.locator("select[name=kind]").select_option("agent")
    await unfold(page)
    await page.locator("input[name=model]").fill(model)
    await page.locator("input[name=files]").set_input_files([EVIL])
    await page.get_by_role("button", name="See what it could cost").click()
    await expect(page.get_by_text("evil.png: its name promises image/png")).to_be_visible()
    await expect(page.get_by_text("choose evil.png again")).to_be_visible()
    await expect(page.get_by_label("What should be done")).to_have_value("Read the chart.")
    await page.locator("input[name=files]").set_input_files([PICTURE, PAPER, TEXT])
    await page.get_by_role("button", name="See what it could cost").click()
    kept = page.get_by_role("group", name="Files it is shown")
    await expect(kept.get_by_role("checkbox")).to_have_count(2)
    await expect(kept).to_contain_text("image <b>chart.png, image/png")
    await expect(page.get_by_label("Input: notes")).to_have_value("Mind the axis.")
    await kept.get_by_role("checkbox", name="paper").uncheck()
    await page.get_by_role("button", name="Check it again").click()
    await expect(kept.get_by_role("checkbox")).to_have_count(1)
    await page.get_by_role("button", name="Start it").click()
    await page.wait_for_url("**/runs/*")
    ended = await stage.site.gateway.result(page.url.rpartition("/")[2])
    assert ended.output == "It rises."
    await context.close()
