"""A person follows a run on the page, unfolds what was said, and goes on from there."""

from playwright.async_api import expect

LONG_MS = 30_000


async def test_what_was_said_unfolds_in_place(stage, rest, page):
    await page.goto(f"{rest.url}/runs/{stage.scenes.accepted}")
    first = page.locator("#iteration-2")
    await first.locator("summary").first.click()
    await expect(first.get_by_text("could name a colour").first).to_be_visible()
    await first.get_by_text("Model calls, with prompts and replies").click()
    part = first.locator("details.part", has_text="System").first
    await part.locator("summary").click()
    await expect(part.get_by_text("You carry out one task.")).to_be_visible(timeout=LONG_MS)
    await first.get_by_role("link", name="Fork from here").click()
    await expect(page.get_by_role("heading", name="Fork from iteration 2")).to_be_visible()


async def test_the_end_of_a_run_shows_without_a_reload(stage, rest, page):
    run = stage.scenes.running
    await page.goto(f"{rest.url}/runs/{run}")
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await page.evaluate("window.stayed = true")
    answer = await rest.client.post(f"/api/v1/loops/{run}/stop", json={"mode": "now"})
    assert answer.status_code == 200, answer.text
    await expect(page.locator(".sentence .state")).to_have_text("stopped", timeout=LONG_MS)
    await expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    assert await page.evaluate("window.stayed") is True
