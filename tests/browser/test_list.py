"""The list of runs in the Temporal Web UI can be filtered by what Perdure publishes."""

import pytest
from playwright.async_api import expect

FILTERS = [
    ('PerdureOutcome = "accepted"', {"accepted"}),
    ('PerdureOutcome = "failed"', {"failed"}),
    ("PerdureScore > 0.8", {"accepted"}),
    ("PerdureCostUsd > 0.015", {"accepted"}),
    ('PerdurePhase = "waiting"', {"approval", "escalation"}),
    ('PerdureBlockedOn = "tool_approval"', {"approval"}),
    ('PerdureLifecycle = "paused"', {"paused"}),
    ('PerdureKind = "refine" and PerdureIteration = 2', {"accepted", "running"}),
    ('PerdureLabel = "bottle" and ExecutionStatus = "Running"', {"escalation", "running"}),
]


@pytest.mark.parametrize(("query", "names"), FILTERS, ids=[query for query, _ in FILTERS])
async def test_the_address_filters(stage, tab, query, names):
    await tab.list(query)
    await expect(tab.rows).to_have_count(len(names))
    assert await tab.listed() == {getattr(stage.scenes, name) for name in names}


async def test_the_query_box_filters(stage, tab):
    await tab.list()
    await expect(tab.rows).to_have_count(len(stage.scenes.all))
    await tab.filter("PerdureScore > 0.8")
    await expect(tab.rows).to_have_count(1)
    assert await tab.listed() == {stage.scenes.accepted}


async def test_a_failed_run_is_red(stage, tab):
    await tab.list('PerdureOutcome = "failed"')
    await expect(tab.rows).to_have_count(1)
    red, green, blue = await tab.color_behind(tab.rows.get_by_text("Failed", exact=True))
    assert red > green + 20
    assert red > blue + 20


async def test_columns_show_scores(stage, tab):
    await tab.columns({"Workflow ID": True, "PerdureScore": False, "PerdureOutcome": False})
    await tab.list('PerdureOutcome = "accepted"')
    await expect(tab.rows).to_contain_text(["0.975"])
