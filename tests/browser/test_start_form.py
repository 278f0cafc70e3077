"""People start a loop by the form of the Temporal Web UI, with nothing but its task."""

import json


async def test_a_task_is_started_by_the_form(stage, tab):
    model = await stage.site.script({"replies": [{"text": "An apple."}]})
    task = {"goal": "Name a fruit.", "models": {"executor": model}}
    await tab.start("AgentLoop", stage.site.settings.task_queue, "fruit-1", json.dumps(task))
    result = await stage.site.gateway.result("fruit-1")
    assert (result.outcome, result.output) == ("accepted", "An apple.")
    panel = await tab.panel("fruit-1")
    assert "An apple." in await panel.inner_text()
