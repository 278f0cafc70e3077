"""People steer by the signal form of the Temporal Web UI."""

import json


async def test_a_paused_run_is_resumed(stage, tab):
    run = stage.scenes.paused
    await tab.run(run)
    await tab.signal("resume", json.dumps({"by": "web"}))
    result = await stage.site.gateway.result(run)
    assert (result.outcome, result.output) == (
        "accepted",
        "Dear customer, thank you for your letter.",
    )


async def test_an_approval_is_given(stage, tab):
    run = stage.scenes.approval
    gate = (await stage.site.status(run)).gates[0]
    await tab.run(run)
    await tab.signal("approve", json.dumps(gate.name))
    result = await stage.site.gateway.result(run)
    assert result.tools_used == {"fs.write": 1}


async def test_an_escalation_is_answered(stage, tab):
    run = stage.scenes.escalation
    await tab.run(run)
    await tab.signal("answer", '{"gate": "g1", "choice": "accept"}')

    result = await stage.site.gateway.result(run)
    assert (result.outcome, result.reason) == ("accepted", "approved")
