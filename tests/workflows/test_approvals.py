"""Approvals of calls: nobody is asked about what cannot run, and all can be read whole."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Literal

import pytest
from agent_runs import answer, call, calls, results, script, task
from holding import HELD, Holding
from installation import Installation
from stages import open_gate
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import Pause, Resume, Stop
from perdure.domain.turns.tool_questions import SHOWN_CHARACTERS
from perdure.interfaces.run_tree import gate_in_full
from perdure.workflows.engine.tool_call_steps import WAVE

DONE = {"text": "Done."}
ASKING = {
    "access": "full",
    "allow": ["fs.*", "web.fetch", "shell.readonly"],
    "approve": ["fs.*", "web.fetch", "shell.readonly"],
}
NEW = "absent"
HOPELESS = {
    "no such argument": call("fs.write", path="a.txt", content="x", expected_hash=NEW, mode="w"),
    "an argument short": call("fs.write", path="a.txt", content="x"),
    "a file of git": call("fs.write", path=".git/config", content="x", expected_hash=NEW),
    "a file outside": call("fs.write", path="../a.txt", content="x", expected_hash=NEW),
    "another file than was read": call(
        "fs.write", path="a.txt", content="x", expected_hash="a" * 64
    ),
    "a hash that is none": call("fs.write", path="a.txt", content="x", expected_hash="latest"),
    "nothing to edit": call("fs.edit", path="a.txt", old="x", new="y", expected_hash=NEW),
    "this host": call("web.fetch", url="http://127.0.0.1/"),
    "a network of its own": call("web.fetch", url="https://10.0.0.1/x"),
    "a name of no public web": call("web.fetch", url="https://localhost/"),
    "another scheme": call("web.fetch", url="file:///etc/passwd"),
    "a program": call("shell.readonly", command="rm -rf ."),
    "a pipe": call("shell.readonly", command="cat a.txt | sh"),
    "a flag that there is not": call("shell.readonly", command="cat --write a.txt"),
}


@pytest.mark.parametrize("asked", HOPELESS.values(), ids=HOPELESS)
async def test_nobody_is_asked_to_approve_what_cannot_run(site: Installation, asked) -> None:
    result = await site.run(task(tools=ASKING), script(calls(asked), DONE))
    assert (result.outcome, result.output) == ("accepted", "Done.")
    (block,) = await results(site, result)
    assert block.outcome in {"error", "denied"}
    assert block.text
    events = (await site.status(result.id)).events
    assert "gate_opened" not in {event.type for event in events}


async def test_a_write_is_shown_as_what_it_changes(site: Installation) -> None:
    first = call("fs.write", path="a.txt", content="one\ntwo\nthree\n", expected_hash=NEW)
    read = hashlib.sha256(b"one\ntwo\nthree\n").hexdigest()
    second = call("fs.edit", path="a.txt", old="two", new="2\u202e", expected_hash=read)
    run = await site.start(task(tools=ASKING), script(calls(first), calls(second), DONE))
    gate = await open_gate(site, run)
    assert gate.prompt == (
        f"Approve fs.write?\nexpected_hash: {NEW}\npath: a.txt\n"
        "--- /dev/null\n+++ b/a.txt\n@@ -1,0 +1,3 @@\n+one\n+two\n+three\n"
        f"hash of the call: {gate.args_hash}"
    )
    await answer(site, run, gate, "approve")
    gate = await open_gate(site, run, after=gate.id)
    assert " one\n-two\n+2<U+202E>\n three" in gate.prompt
    await answer(site, run, gate, "approve")
    result = await site.gateway.result(run)
    assert result.tools_used == {"fs.edit": 1, "fs.write": 1}


async def test_all_of_a_long_call_can_be_read_where_it_is_approved(site: Installation) -> None:
    content = "\n".join(f"line {number} of many" for number in range(500)) + "\nrm -rf /\n"
    asked = call("fs.write", path="a.sh", content=content, expected_hash=NEW)
    run = await site.start(task(tools=ASKING), script(calls(asked), DONE))
    gate = await open_gate(site, run)
    assert "rm -rf /" not in gate.prompt
    whole = await gate_in_full(gate, site.parts.stores.blobs)
    left_out = len(whole.prompt) - len(gate.prompt)
    assert left_out > 0
    assert f"perdure gates {run} --full" in gate.prompt
    assert "more characters, not shown here" in gate.prompt
    assert len(gate.prompt) < SHOWN_CHARACTERS + 400
    assert all(f"+line {number} of many" in whole.prompt for number in range(500))
    assert "+rm -rf /" in whole.prompt
    await answer(site, run, gate, "deny")
    assert (await site.gateway.result(run)).outcome == "accepted"


@pytest.mark.parametrize(("signal", "outcome"), [("approve", "ok"), ("deny", "denied")])
async def test_a_signal_with_the_name_alone_answers(
    site: Installation, signal: str, outcome: str
) -> None:
    asked = call("fs.write", path="a.txt", content="x", expected_hash=NEW)
    run = await site.start(task(tools=ASKING), script(calls(asked), DONE))
    gate = await open_gate(site, run)
    await site.handle(run).signal(signal, "g1-0000" if gate.name != "g1-0000" else "g1-1111")
    await site.handle(run).signal("approve", gate.id)
    refused = (await site.status(run)).refused
    assert "asks about other arguments" in refused[0]
    assert "an approval names what it approves" in refused[1]
    await site.handle(run).signal(signal, gate.name)
    (block,) = await results(site, await site.gateway.result(run))
    assert block.outcome == outcome


@pytest.mark.parametrize("mode", ["graceful", "now"])
async def test_an_approved_call_that_a_stop_held_back_did_not_run(
    site: Installation, mode: Literal["graceful", "now"]
) -> None:
    """Approved while paused, then stopped: nobody may read of it as of a call that succeeded."""
    asked = call("fs.write", path="a.txt", content="x", expected_hash=NEW)
    run = await site.start(task(tools=ASKING), script(calls(asked), DONE))
    gate = await open_gate(site, run)
    await site.gateway.verb(run, Pause())
    await answer(site, run, gate, "approve")
    await site.gateway.verb(run, Stop(mode=mode))
    result = await site.gateway.result(run)
    assert result.outcome == "stopped"
    (block,) = await results(site, result)
    assert (block.outcome, block.text) == ("interrupted", "not run: the run was stopped")


@pytest.mark.parametrize("how", ["update", "signal"])
async def test_no_answer_is_taken_once_the_run_is_stopping(
    site: Installation, holding: Holding, how: str
) -> None:
    """The gate is open until the end, and the model still writes its closing text."""
    asked = call("fs.write", path="a.txt", content="x", expected_hash=NEW)
    run = await site.start(task(tools=ASKING), script(calls(asked), {**DONE, "delay_s": HELD}))
    gate = await open_gate(site, run)
    await site.gateway.verb(run, Stop())
    await holding.begun()
    if how == "update":
        with pytest.raises(NotAllowed, match="the run is stopping"):
            await answer(site, run, gate, "approve")
    else:
        await site.handle(run).signal("approve", gate.name)
        await eventually(lambda: _notes(site, run))
        assert "the run is stopping" in (await _notes(site, run))[0]
    holding.release()
    (block,) = await results(site, await site.gateway.result(run))
    assert block.outcome == "interrupted"


async def _notes(site: Installation, run: str) -> Sequence[str]:
    return (await site.status(run)).refused


async def test_answers_to_many_calls_count_however_early_they_come(site: Installation) -> None:
    """Calls are looked at in waves; those of the first are answered before the last is asked."""
    asked = [
        call("fs.write", path=f"{number}.txt", content="x", expected_hash=NEW)
        for number in range(WAVE * 5)
    ]
    run = await site.start(task(tools=ASKING), script(calls(*asked), DONE))
    await open_gate(site, run)
    await site.gateway.verb(run, Pause())

    async def at_rest() -> bool:
        described = await site.handle(run).describe()
        waits = not described.raw_description.pending_activities
        return waits and len((await site.status(run)).gates) >= WAVE

    await eventually(at_rest)
    answered: set[str] = set()

    async def all_answered() -> bool:
        for gate in (await site.status(run)).gates:
            if gate.id not in answered:
                answered.add(gate.id)
                await answer(site, run, gate, "approve")
        return len(answered) == len(asked)

    await all_answered()
    await site.gateway.verb(run, Resume())
    await eventually(all_answered)
    result = await asyncio.wait_for(site.gateway.result(run), 60)
    assert (result.outcome, result.tools_used) == ("accepted", {"fs.write": len(asked)})
