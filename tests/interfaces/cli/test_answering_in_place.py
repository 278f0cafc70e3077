"""Somebody follows a run on a terminal, is asked there, and answers there."""

import os

import pytest
from agent_runs import call, calls
from delegating import completes, delegates, delegation, script, works
from installation import Installation
from stages import open_gate
from typing_person import at_terminal

SPEC = {
    "kind": "agent",
    "goal": "note it",
    "learn": False,
    "tools": {"access": "full", "approve": ["fs.write"]},
}
SCRIPT = {
    "replies": [
        calls(call("fs.write", path="a.txt", content="tea\n", expected_hash="absent")),
        {"text": "It is noted."},
    ]
}
CTRL_C = "\x03"


@pytest.fixture
def environment(site: Installation) -> dict[str, str]:
    return {**os.environ, **site.settings.as_environment(), "TEMPORAL_ADDRESS": site.address}


@pytest.mark.long
async def test_a_person_answers_where_they_watch(
    site: Installation, environment: dict[str, str]
) -> None:
    run = await site.start(SPEC, SCRIPT)
    with at_terminal("watch", run, environment=environment) as person:
        await person.sees("[a]pprove  [d]eny")
        assert "+tea" in person.shown.decode(), "what would be written is shown"
        person.types("a\r")
        assert await person.ended() == 0
    assert "It is noted." in person.shown.decode()
    assert "tool_started" in await _happened(site, run)


@pytest.mark.slow
async def test_interrupting_leaves_the_question_open(
    site: Installation, environment: dict[str, str]
) -> None:
    run = await site.start(SPEC, SCRIPT)
    asked = await open_gate(site, run)
    with at_terminal("watch", run, environment=environment) as person:
        await person.sees("[a]pprove  [d]eny")
        person.types(CTRL_C)
        assert await person.ended() == 130
    assert "The run goes on." in person.shown.decode()
    assert (await site.status(run)).gates == (asked,)
    await site.handle(run).signal("stop", {"mode": "now"})
    await site.gateway.result(run)


@pytest.mark.slow
async def test_a_question_answered_elsewhere_leaves_the_terminal(
    site: Installation, environment: dict[str, str]
) -> None:
    run = await site.start(SPEC, SCRIPT)
    asked = await open_gate(site, run)
    with at_terminal("watch", run, environment=environment) as person:
        await person.sees("[a]pprove  [d]eny")
        person.types("a")
        await site.handle(run).signal("deny", asked.name)
        await person.sees("was settled elsewhere")
        assert await person.ended() == 0
    assert "tool_started" not in await _happened(site, run)


async def _happened(site: Installation, run: str) -> set[str]:
    return {event.type for event in (await site.status(run)).events}


async def test_a_question_of_a_run_below_is_asked_where_the_root_is_watched(
    site: Installation, environment: dict[str, str]
) -> None:
    tea = call("human.ask", question="Tea or coffee?", choices=["tea", "coffee"])
    replies = script(
        delegates("w1"),
        {**calls(tea), "when": {"role": "worker", "worker": "w1"}},
        works("w1", "tea"),
        completes("tea"),
    )
    run = await site.start(delegation(tools={"access": "readonly"}), replies)
    with at_terminal("watch", run, environment=environment) as person:
        await person.sees("> ")
        assert "Tea or coffee?" in person.shown.decode()
        person.types("tea\r")
        assert await person.ended() == 0
    assert "✓ g1" in person.shown.decode()
