"""A run that is paused while it waits for a person is listed as paused."""

from collections.abc import Callable
from functools import partial

import pytest
from agent_runs import answer, gate_of
from installation import Installation
from listed import listed
from temporalio.client import Client
from waiting import eventually

from perdure.domain.run.messages import Pause, Resume

ASKS = {"tool_calls": [{"name": "human.ask", "arguments": {"question": "Which colour?"}}]}


async def _asking(site: Installation) -> str:
    task = {"kind": "agent", "goal": "Name a colour.", "tools": {"access": "readonly"}}
    run = await site.start(task, {"replies": [ASKS, {"text": "Blue."}]})
    assert await eventually(partial(gate_of, site, run))
    return run


async def _is_listed_as(site: Installation, run: str, lifecycle: str) -> bool:
    row = (await listed(site.gateway)).get(run)
    return row is not None and row.lifecycle == lifecycle


@pytest.mark.parametrize("way", ["update", "signal"])
async def test_a_pause_at_a_gate_is_listed(site: Installation, way: str) -> None:
    run = await _asking(site)
    plain = (await Client.connect(site.address)).get_workflow_handle(run)
    say: Callable[..., object] = plain.signal if way == "signal" else plain.execute_update
    for verb, lifecycle in (("pause", "paused"), ("resume", "waiting")):
        await say(verb)  # type: ignore[misc]
        assert await eventually(partial(_is_listed_as, site, run, lifecycle)), verb
    gate = await gate_of(site, run)
    assert gate is not None
    await answer(site, run, gate, "", "blue")
    assert (await site.gateway.result(run)).output == "Blue."


async def test_an_answer_leaves_a_paused_run_listed_as_paused(site: Installation) -> None:
    run = await _asking(site)
    await site.gateway.verb(run, Pause())
    assert await eventually(partial(_is_listed_as, site, run, "paused"))
    gate = await gate_of(site, run)
    assert gate is not None
    await answer(site, run, gate, "", "blue")
    assert await eventually(partial(_is_listed_as, site, run, "paused"))
    await site.gateway.verb(run, Resume())
    assert (await site.gateway.result(run)).output == "Blue."
