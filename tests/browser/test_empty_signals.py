"""The signal form of the Temporal Web UI, sent as it opens: with nothing in it."""

import pytest
from holding import Holding
from playwright.async_api import expect
from steered import DONE, HELD_LIST, lifecycle, spec, told
from waiting import eventually
from web_ui import SUBMIT

NO_DATA = {
    "resume": "resume: the run is running, not paused",
    "retry": "retry: the run is running; `retry` goes on after a failure",
    "answer": "answer: `gate` is missing; send {",
    "approve": 'approve: `gate` is missing; send "g1-7f3a"',
    "deny": 'deny: `gate` is missing; send "g1-7f3a" or {',
    "amend": "amend: amend needs a budget, a rubric or guidance",
    "add_input": "add_input: the input is empty",
    "cheer_up": "cheer_up: there is no such signal",
}


@pytest.fixture
def holding(monkeypatch):
    held = Holding()
    held.install(monkeypatch)
    return held


@pytest.fixture
async def run(stage, holding):
    """A run in the middle of a model call."""
    name = await stage.site.start(spec(), {"replies": [HELD_LIST, DONE]})
    await holding.begun()
    return name


async def test_an_empty_form_is_taken_or_refused_in_words(stage, tab, run, holding):
    for count, (name, words) in enumerate(NO_DATA.items(), start=1):
        await _send(stage, tab, run, name)
        status = await told(stage.site, run)
        assert status.refused_count == count
        assert status.refused[-1].startswith(words)

    await _send(stage, tab, run, "pause")
    await lifecycle(stage.site, run, "paused")
    await _send(stage, tab, run, "escalate")
    panel = await tab.panel(run)
    await expect(panel).to_contain_text("refused: cheer_up: there is no such signal")
    await expect(panel).to_contain_text("refused: add_input: the input is empty")
    await _send(stage, tab, run, "stop")
    holding.release()

    result = await stage.site.gateway.result(run)
    assert result.outcome == "stopped"
    kinds = [str(event["eventType"]) for event in await stage.site.history(run)]
    assert not [kind for kind in kinds if "TASK_FAILED" in kind or "TASK_TIMED_OUT" in kind]


async def test_the_entry_for_other_names_sends_nothing(stage, tab, run, holding):
    """Any name is taken, so the form lists one entry without a name."""
    await tab.run(run)
    await tab.signal_form("Any other name: type it as Custom. It is noted as refused.")
    await expect(tab.page.locator(SUBMIT)).to_be_disabled()
    assert not await _signals(stage, run)
    holding.release()
    assert (await stage.site.gateway.result(run)).outcome == "accepted"


async def _send(stage, tab, run, name):
    """Send the form as it is, and see that it arrives, once."""
    before = await _signals(stage, run)
    await tab.run(run)
    await tab.signal(name)

    async def arrived():
        return len(await _signals(stage, run)) > len(before)

    await eventually(arrived)
    assert await _signals(stage, run) == [*before, name]


async def _signals(stage, run):
    return [
        event["workflowExecutionSignaledEventAttributes"]["signalName"]
        for event in await stage.site.history(run)
        if "SIGNALED" in str(event["eventType"])
    ]
