"""A run's page in the Temporal Web UI tells a stranger what it does and why it ended."""

import re

import pytest
from playwright.async_api import expect

PANELS = [
    ("running", ["Write a care guide", "Running: executing, iteration 2 of at most 3"]),
    ("running", ["now: executor", "best score 0.65, in iteration 1", "of 2.00 USD"]),
    ("approval", ["Waiting", "Tool approval g1-", "Approve fs.write?", "faster start"]),
    ("approval", ["perdure answer --run", '"gate": "g1-', '"choice": "approve"']),
    ("escalation", ["Escalation g1", "The score 0.3 is below 0.6", "continue, accept, stop"]),
    ("paused", ["Paused", "perdure resume"]),
    ("failed", ["Failed (model_error)", "invalid x-api-key"]),
    ("accepted", ["Accepted (quality_met)", "scores so far: 0.65 → 0.97", "perdure result"]),
]


@pytest.mark.parametrize(
    ("name", "texts"), PANELS, ids=[f"{name}: {texts[0]}" for name, texts in PANELS]
)
async def test_the_panel_tells(stage, tab, name, texts):
    panel = await tab.panel(getattr(stage.scenes, name))
    for text in texts:
        await expect(panel).to_contain_text(text)


async def test_the_timeline_names_each_step_and_iteration(stage, tab):
    await tab.run(stage.scenes.accepted)
    for text in ("turn 1 (iteration 1)", "checks (iteration 1)", "judge (iteration 2)"):
        await expect(tab.page.get_by_text(text).first).to_be_visible()
    await expect(tab.page.get_by_text("finish: accepted/quality_met").first).to_be_visible()


async def test_the_page_of_a_failed_run_is_red_and_says_why(stage, tab):
    await tab.run(stage.scenes.failed)
    chip = tab.page.get_by_text(re.compile("^failed$", re.IGNORECASE)).first
    red, green, blue = await tab.color_behind(chip)
    assert red > green + 20
    assert red > blue + 20
    await expect(tab.page.get_by_text("failed/model_error").first).to_be_visible()
