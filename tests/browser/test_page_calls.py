"""A person follows a run on the page, unfolds what was said, and goes on from there."""

import base64
from typing import Any

from agent_runs import task
from pictures import png
from playwright.async_api import expect

from perdure.submission.loading import load_data, store
from perdure.submission.types import Surroundings

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


async def test_a_refusal_with_its_comment_is_found_in_the_run(stage, rest, page):
    run = stage.scenes.approval
    await page.goto(f"{rest.url}/runs/{run}")
    card = page.locator("article.gate")
    await card.get_by_label("Note to the run").fill("Name the version first.")
    await card.get_by_role("button", name="Deny").click()
    await expect(page.locator(".told")).to_contain_text("was taken")
    await expect(page.locator(".sentence .state")).to_have_text("accepted", timeout=LONG_MS)
    first = page.locator("#iteration-1")
    await first.locator("summary").first.click()
    await first.get_by_text("Arguments and results of the tool calls").click()
    await expect(first.get_by_text("Name the version first.")).to_be_visible(timeout=LONG_MS)


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


async def test_a_picture_that_a_model_was_shown_is_seen(stage, rest, page):
    chart = {"base64": base64.b64encode(png(400, 300)).decode(), "name": "chart.png"}
    model = await stage.site.script({"replies": [{"text": "It rises."}]})
    given: dict[str, Any] = task(context={"chart": chart}, models={"executor": model})
    submission = load_data(given, surroundings=Surroundings(folder=None))
    run = await stage.site.gateway.start(await store(submission, stage.site.parts.stores.blobs))
    await stage.site.gateway.result(run)
    await page.goto(f"{rest.url}/runs/{run}/iterations/1/calls")
    await page.get_by_text("Image about").click()
    picture = page.get_by_role("img", name="image chart.png, image/png, 400 × 300 pixels")
    await expect(picture).to_be_visible()
    await expect(picture).to_have_js_property("naturalWidth", 400)
