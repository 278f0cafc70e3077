"""A command without a terminal says what it waits for: a program cannot look elsewhere."""

import asyncio
import io
import json
import os
import signal
import sys

import pytest
from agent_runs import call, calls
from delegating import completes, delegates, delegation, script, works
from installation import Installation

from perdure.domain.foundation.progress import Standing
from perdure.domain.run.status import RunStatus
from perdure.interfaces.cli.output import Output
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.waits import questions_told
from tests.interfaces.cli.memory import Installation as Memory
from tests.interfaces.cli.samples import RUN

TEA = call("human.ask", question="Tea or coffee?", choices=["tea", "coffee"])
ASKED = "the run waits for a person: Tea or coffee?"


async def below(site: Installation) -> str:
    """A run whose worker asks."""
    replies = script(
        delegates("w1"),
        {**calls(TEA), "when": {"role": "worker", "worker": "w1"}},
        works("w1", "tea"),
        completes("tea"),
    )
    return await site.start(delegation(tools={"access": "readonly"}), replies)


async def itself(site: Installation) -> str:
    """A run that asks."""
    spec = {"kind": "agent", "goal": "choose", "tools": {"access": "readonly"}}
    return await site.start(spec, {"replies": [calls(TEA), {"text": "tea"}]})


async def waiting(site: Installation, *words: str) -> asyncio.subprocess.Process:
    """A command in a process of its own, without a terminal or any input."""
    environment = {**os.environ, **site.settings.as_environment(), "TEMPORAL_ADDRESS": site.address}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "perdure", *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )


async def said(process: asyncio.subprocess.Process) -> str:
    """The line that says who is asked."""
    assert process.stderr is not None
    async for line in process.stderr:
        if "waits for a person" in (text := line.decode()):
            return text.strip()
    raise AssertionError("it ended without a word")


@pytest.mark.parametrize(
    ("starts", "words"),
    [
        (itself, ("result", "--wait")),
        (itself, ("result", "--wait", "--json")),
        (below, ("watch",)),
        (below, ("watch", "--json")),
        (itself, ("watch", "--text")),
        (below, ("result", "--wait", "--json")),
    ],
)
async def test_a_question_is_told_with_the_command_that_answers_it(
    site: Installation, starts, words: tuple[str, ...]
) -> None:
    run = await starts(site)
    process = await waiting(site, words[0], run, *words[1:])
    told = await said(process)
    assert told.startswith(ASKED)
    name, _, choices = told.partition("perdure answer ")[2].partition(" CHOICE ")
    assert choices.strip() == "(tea, coffee)"
    asker, _, gate = name.partition(":")
    answering = await waiting(site, "answer", name, "tea", "--json")
    assert await answering.wait() == 0, (asker, gate)
    out, err = await process.communicate()
    assert process.returncode == 0
    assert "waits for a person" not in err.decode(), "it is told once"
    if "--json" in words:
        lines = [json.loads(line) for line in out.decode().splitlines()]
        assert lines[-1]["outcome"] in {"accepted", "completed"}


async def test_who_ends_the_wait_is_told_that_the_run_goes_on(site: Installation) -> None:
    run = await itself(site)
    process = await waiting(site, "result", run, "--wait")
    await said(process)
    process.send_signal(signal.SIGTERM)
    _, err = await process.communicate()
    assert process.returncode == 143
    assert f"perdure watch {run}" in err.decode()
    await site.handle(run).signal("stop", {"mode": "now"})
    await site.gateway.result(run)


@pytest.mark.parametrize("words", [("watch",), ("result", "--wait"), ("watch", "--json")])
def test_what_is_out_of_order_is_told(perdure: Memory, words: tuple[str, ...]) -> None:
    perdure.gateway.trouble = "no worker serves the queue"
    assert perdure.run(words[0], RUN, *words[1:]) == 0
    assert "no worker serves the queue" in perdure.err
    assert "no worker serves the queue" not in perdure.out


async def test_what_fails_in_the_background_costs_no_result(
    perdure: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(run: str) -> RunStatus:
        raise ValueError("a status of another version")

    gateway = perdure.gateway
    monkeypatch.setattr(gateway, "status", broken)
    session = Session(perdure.context(), Output(io.StringIO(), io.StringIO()))
    async with questions_told(session, gateway, RUN, own=True):
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("as_json", [False, True])
def test_what_stands_is_told_beside_json_too(as_json: bool) -> None:
    out, err = io.StringIO(), io.StringIO()
    output = Output(out, err, as_json=as_json)
    with output.working("connecting") as progress:
        progress("starting the services")
        progress(Standing("the running services keep their settings"))
    assert "the running services keep their settings" in err.getvalue()
    assert ("starting the services" in err.getvalue()) != as_json
    assert out.getvalue() == ""
