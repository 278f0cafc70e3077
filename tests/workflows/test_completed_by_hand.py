"""Steps that somebody completes by hand (`temporal activity complete`), with any value."""

import pytest
from agent_runs import call, calls, results, script, task
from holding import HELD, Holding
from installation import Installation
from temporalio.client import Client
from waiting import eventually

DONE = {"text": "An apple."}
SLOW = {"text": "A pear.", "delay_s": HELD}
ANYTHING = [None, {}, [], "done", 7, True, {"answer": "A plum."}, {"status": "completed"}]
NO_REPORT = [value for value in ANYTHING if value != {}]
FULL = {"access": "full"}


async def _complete(site: Installation, run: str, activity: str, value: object) -> None:
    """Complete the running step as a client does that knows nothing of Perdure."""
    named: list[str] = []

    async def running() -> bool:
        described = await site.handle(run).describe()
        named[:] = [
            step.activity_id
            for step in described.raw_description.pending_activities
            if step.activity_type.name == activity and step.state == 2
        ]
        return bool(named)

    await eventually(running)
    plain = await Client.connect(site.address)
    await plain.get_async_activity_handle(
        workflow_id=run, run_id=None, activity_id=named[0]
    ).complete(value)


@pytest.mark.parametrize("value", ANYTHING, ids=repr)
async def test_a_model_call_is_made_again(
    site: Installation, holding: Holding, value: object
) -> None:
    run = await site.start({"kind": "agent", "goal": "Name a fruit."}, script(SLOW))
    await _complete(site, run, "call_model", value)
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.output) == ("accepted", "A pear.")
    (note,) = (await site.status(run)).refused
    assert "result of step" in note
    assert "only a worker can report this step" in note or value is None


async def test_a_call_that_is_always_completed_by_hand_fails_in_words(site: Installation) -> None:
    run = await site.start({"kind": "agent", "goal": "Name a fruit."}, script(SLOW))
    for _ in range(3):
        await _complete(site, run, "call_model", {"answer": "A plum."})
    result = await site.gateway.result(run)
    assert result.outcome == "failed"
    assert "an object with answer" in result.explanation


@pytest.mark.parametrize("value", NO_REPORT, ids=repr)
async def test_the_model_is_told_of_a_tool_without_its_result(
    probe: Installation, value: object
) -> None:
    run = await probe.start(task(tools=FULL), script(calls(call("probe.hang")), DONE))
    await _complete(probe, run, "call_tool", value)
    result = await probe.gateway.result(run)
    (block,) = await results(probe, result)
    assert (block.outcome, result.output) == ("effect_uncertain", "An apple.")
    assert "completed by hand, without its result" in block.text
    (note,) = (await probe.status(run)).refused
    assert '{"outcome": "ok"}' in note or value is None


async def test_each_call_of_a_tool_is_made_again_as_often(probe: Installation) -> None:
    asked = [calls(call("probe.wait", text=text)) for text in "ab"]
    run = await probe.start(task(), script(*asked, DONE))
    for value in (None, None, {"outcome": "ok"}, None, {"outcome": "ok"}):
        await _complete(probe, run, "call_tool", value)
    result = await probe.gateway.result(run)
    assert [block.outcome for block in await results(probe, result)] == ["ok", "ok"]


@pytest.mark.parametrize("value", [{}, {"outcome": "ok"}, {"outcome": "ok", "more": 1}], ids=repr)
async def test_a_tool_may_be_completed_without_output(probe: Installation, value: object) -> None:
    run = await probe.start(task(tools=FULL), script(calls(call("probe.hang")), DONE))
    await _complete(probe, run, "call_tool", value)
    result = await probe.gateway.result(run)
    (block,) = await results(probe, result)
    assert (block.outcome, result.output) == ("ok", "An apple.")
    assert not (await probe.status(run)).refused
