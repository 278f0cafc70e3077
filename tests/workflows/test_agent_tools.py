"""Tool calls of an agent run: order, repeats, loops, filters, deadlines, access, written files."""

import json
import threading
from pathlib import Path

import probe_tools
import pytest
from agent_runs import (
    answer,
    books_agree,
    call,
    calls,
    conversation,
    echo,
    event_types,
    gate_of,
    results,
    script,
    shown,
    task,
)
from installation import Installation
from waiting import eventually

from perdure.adapters.tools.host import LocalToolHost
from perdure.domain.llm.transcript import ToolUseBlock
from perdure.domain.run.result import RunResult
from perdure.domain.turns.records import IterationRecord

DONE = {"text": "Done."}
FULL = {"access": "full"}
SUPPORT = str(Path(probe_tools.__file__).parent)


async def test_calls_of_one_reply_run_side_by_side_and_answer_in_call_order(
    probe: Installation,
) -> None:
    asked = calls(*(call("probe.wait", text=name) for name in "abc"))
    run = await probe.start(task(), script(asked, DONE))
    await eventually(lambda: len(probe_tools.CALLS.get(run, [])) == 3)
    probe_tools.RELEASED.setdefault(run, threading.Event()).set()
    result = await probe.gateway.result(run)
    assert all(noted.startswith("start") for noted in probe_tools.CALLS[run][:3])
    assert [block.text for block in await results(probe, result)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("agent", "asked", "expected"),
    [
        (
            {"parallel_tools": False},
            [call("probe.pair", text="a", delay=0.02), call("probe.pair", text="b")],
            ["start a", "end a", "start b", "end b"],
        ),
        (
            {},
            [
                call("probe.pair", text="a", delay=0.02),
                call("probe.alone", text="b"),
                call("probe.pair", text="c"),
            ],
            ["start a", "end a", "start b", "end b", "start c", "end c"],
        ),
    ],
    ids=["one by one", "an exclusive call runs alone"],
)
async def test_calls_that_may_not_overlap(probe: Installation, agent, asked, expected) -> None:
    result = await probe.run(task(agent=agent), script(calls(*asked), DONE))
    assert probe_tools.CALLS[result.id] == expected


async def test_no_call_begins_once_the_active_time_is_spent(probe: Installation) -> None:
    asked = calls(call("probe.pair", text="a", delay=30), call("probe.pair", text="b"))
    given = task(agent={"parallel_tools": False}, budget={"active_time": 2})
    result = await probe.run(given, script(asked, DONE))
    assert (result.outcome, result.reason) == ("deadline", "active_time")
    assert probe_tools.CALLS[result.id] == ["start a"]
    late = (await results(probe, result))[1]
    assert (late.outcome, late.text) == ("interrupted", "not run: the time of the run is spent")


async def test_more_calls_than_a_wave_holds_all_run(probe: Installation) -> None:
    asked = calls(*(call("probe.echo", text=str(index)) for index in range(40)))
    result = await probe.run(task(), script(asked, DONE))
    assert [block.text for block in await results(probe, result)] == [str(i) for i in range(40)]
    assert result.spend.tool_calls == 40


@pytest.mark.parametrize("said", ["probe_echo", "PROBE.ECHO", "repeat_after_me"])
async def test_the_normalised_name_is_what_is_stored_and_run(probe: Installation, said) -> None:
    result = await probe.run(task(), script(calls(call(said, text="hello")), DONE))
    found = await conversation(probe, result.transcript)
    uses = [block for message in found for block in message.blocks if block.type == "tool_use"]
    assert [use.name for use in uses if isinstance(use, ToolUseBlock)] == ["probe.echo"]
    assert result.tools_used == {"probe.echo": 1}


@pytest.mark.long
async def test_the_fourth_equal_call_is_blocked_and_the_loop_goes_on(probe: Installation) -> None:
    result = await probe.run(task(), script(*[echo("a")] * 5, DONE))
    assert (result.outcome, result.output) == ("accepted", "Done.")
    assert probe_tools.CALLS[result.id] == ["echo a"] * 3
    assert result.tools_used == {"probe.echo": 3}
    assert result.spend.tool_calls == 3
    blocked = result.iterations[3]
    assert (blocked.break_reason, blocked.tool_calls) == ("tool_loop", 0)
    assert [(row.id, row.outcome) for row in blocked.calls] == [("", "repeat")]
    assert "was already called 3 times" in (await results(probe, result))[3].text
    assert "tool_refused" in await event_types(probe, result.id)


@pytest.mark.long
async def test_an_exempt_tool_may_poll(probe: Installation) -> None:
    wanted = task(tools={"repeat_exempt": ["probe.echo"]}, agent={"max_iterations": 60})
    result = await probe.run(wanted, script(echo("a", times=35), DONE))
    assert (result.outcome, result.tools_used) == ("accepted", {"probe.echo": 35})


@pytest.mark.long
async def test_the_same_result_again_and_again_is_pointed_out(probe: Installation) -> None:
    asked = [calls(call("probe.same", text=str(index))) for index in range(4)]
    result = await probe.run(task(), script(*asked, DONE))
    texts = [block.text for block in await results(probe, result)]
    assert texts[:3] == ["always the same"] * 3
    assert "has returned this same result 4 times" in texts[3]


LEVELS = {"warning": 2, "critical": 3, "circuit_breaker": 4}


@pytest.mark.long
async def test_a_tool_that_brings_nothing_new_asks_a_person_and_then_ends(
    probe: Installation,
) -> None:
    asked = [calls(call("probe.same", text=str(index))) for index in range(8)]
    run = await probe.start(
        task(agent={"tool_loop": LEVELS}), script(*asked[:5], {"text": "Closing."})
    )
    await eventually(lambda: gate_of(probe, run))
    gate = await gate_of(probe, run)
    assert gate is not None and gate.kind == "escalation"
    assert "probe.same was called 3 times without bringing anything new" in gate.prompt
    await answer(probe, run, gate, "continue", "Try once more.")
    result = await probe.gateway.result(run)
    assert (result.outcome, result.reason) == ("tool_misuse", "tool_loop")
    assert result.output == "Closing."
    assert "user: Guidance: Try once more." in await shown(probe, result)
    assert probe_tools.CALLS[run] == [f"same {index}" for index in range(5)]
    refused = [event async for event in probe.gateway.events(run) if event.type == "tool_refused"]
    assert [event.data["why"] for event in refused] == [
        "tool_loop warning",
        "tool_loop critical",
        "tool_loop circuit_breaker",
    ]


@pytest.mark.long
async def test_a_tool_that_changes_something_may_say_the_same_each_time(
    probe: Installation,
) -> None:
    asked = [calls(call("probe.put", text=str(index))) for index in range(6)]
    wanted = task(tools=FULL, agent={"tool_loop": LEVELS})
    result = await probe.run(wanted, script(*asked, DONE))
    assert (result.outcome, result.tools_used) == ("accepted", {"probe.put": 6})
    assert [block.text for block in await results(probe, result)] == ["done"] * 6


@pytest.mark.parametrize(
    ("choice", "expected"), [("accept", "accepted/approved"), ("stop", "stopped/stopped")]
)
async def test_a_critical_loop_may_be_ended_by_a_person(
    probe: Installation, choice, expected
) -> None:
    asked = [calls(call("probe.same", text=str(index))) for index in range(4)]
    run = await probe.start(task(agent={"tool_loop": LEVELS}), script(*asked, {"text": "So far."}))
    await eventually(lambda: gate_of(probe, run))
    gate = await gate_of(probe, run)
    assert gate is not None
    await answer(probe, run, gate, choice)
    result = await probe.gateway.result(run)
    assert f"{result.outcome}/{result.reason}" == expected
    assert (result.output, result.partial) == ("So far.", choice == "stop")


async def test_a_call_is_mended_before_anything_is_made_of_it(probe: Installation) -> None:
    calls = [
        {"tool_calls": [{"name": "probe.page", "arguments": {"number": number}}]}
        for number in ("page 7", 7)
    ]
    result = await probe.run(task(agent={"max_tool_repeat": 1}), script(*calls, DONE))
    first, second = await results(probe, result)
    assert (first.outcome, "page 7 has words" in first.text) == ("ok", True)
    assert second.outcome == "error", "the same call as the first one"


async def names_at(probe: Installation, record: IterationRecord) -> list[str]:
    assert record.tools_ref
    stored = json.loads(await probe.parts.stores.blobs.get_text(record.tools_ref))
    return stored if isinstance(stored, list) else [tool["name"] for tool in stored["tools"]]


async def test_a_filter_changes_what_is_on_offer(probe: Installation) -> None:
    looks, none = {"only": ["fs."], "after": 2}, {"tags": ["nobody's"], "after": 9}
    wanted = task(tools={"filter": [looks, none]})
    result = await probe.run(wanted, script(echo("a"), echo("b"), DONE))
    outcomes = [block.outcome for block in await results(probe, result)]
    assert outcomes == ["ok", "error"]
    first, second, _ = result.iterations
    assert first.tools_offered > second.tools_offered == 3
    assert await names_at(probe, second) == ["fs.list", "fs.read", "fs.search"]
    assert len(await names_at(probe, first)) == first.tools_offered
    assert "available: fs.list, fs.read, fs.search" in (await results(probe, result))[1].text


async def test_without_tools_any_call_is_illegal(probe: Installation) -> None:
    wanted = task(tools={"access": "minimal"}, agent={"max_illegal_strikes": 1})
    result = await probe.run(wanted, script(echo("a"), {"text": "None here."}))
    assert (result.outcome, result.output) == ("tool_misuse", "None here.")
    assert "available: none" in (await results(probe, result))[0].text
    assert (result.iterations[0].tools_offered, result.iterations[0].tools_ref) == (0, None)


async def test_calls_of_a_tool_that_its_host_knows_no_longer_are_strikes(
    bare: Installation,
) -> None:
    """The worker comes back without the plugin while a person is asked."""
    asked = calls(call("human.ask", question="Tea or coffee?", choices=["tea", "coffee"]))
    replies = script(asked, echo("a"), echo("b"), {"text": "It is gone."})
    async with bare.worker(plugins=("probe_tools",)):
        run = await bare.start(task(), replies)
        await eventually(lambda: gate_of(bare, run))
        gate = await gate_of(bare, run)
        assert gate is not None
    async with bare.worker():
        await answer(bare, run, gate, "tea")
        result = await bare.gateway.result(run)
    assert (result.outcome, result.output) == ("tool_misuse", "It is gone.")
    assert [block.outcome for block in await results(bare, result)] == ["ok", "error", "error"]


@pytest.mark.parametrize(
    ("level", "name", "outcome"),
    [
        ("readonly", "fs.list", "ok"),
        ("readonly", "shell.readonly", "error"),
        ("readonly-shell", "shell.readonly", "ok"),
        ("readonly-shell", "fs.write", "error"),
        ("full", "fs.write", "ok"),
    ],
)
async def test_tools_by_access_level(probe: Installation, level, name, outcome) -> None:
    arguments = {
        "fs.list": {"path": "."},
        "shell.readonly": {"command": "ls"},
        "fs.write": {"path": "new.txt", "content": "x", "expected_hash": "absent"},
    }[name]
    asked = calls({"name": name, "arguments": arguments})
    result = await probe.run(task(tools={"access": level}), script(asked, DONE))
    (block,) = await results(probe, result)
    assert block.outcome == outcome, block.text


async def test_a_tool_that_ignores_its_deadline_does_not_hold_the_run(probe: Installation) -> None:
    result = await probe.run(task(tools=FULL), script(calls(call("probe.deaf")), DONE))
    (block,) = await results(probe, result)
    assert (block.outcome, result.output) == ("error", "Done.")
    assert "abandoned" in block.text


async def test_an_asynchronous_tool_that_blocks_holds_up_itself_and_nothing_else(
    probe: Installation,
) -> None:
    again = [calls(call("probe.block")), calls(call("probe.pair", text="b")), DONE]
    run = await probe.start(task(tools=FULL), script(*again))
    result = await probe.gateway.result(run)
    blocked, after = await results(probe, result)
    assert (blocked.outcome, after.text, result.output) == ("error", "b", "Done.")
    assert "abandoned" in blocked.text
    probe_tools.RELEASED[run].set()


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        ({"tools": {"access": "full"}}, "0.2 s"),
        ({"tools": {"access": "full", "timeouts": {"probe.slow": 0.1}}}, "0.1 s"),
    ],
    ids=["the tool's own", "the task's"],
)
async def test_deadlines_of_calls(probe: Installation, spec, limit) -> None:
    if "timeouts" in spec["tools"]:
        _gateway_knows_the_tools(probe)
    result = await probe.run(task(**spec), script(calls(call("probe.slow")), DONE))
    assert limit in (await results(probe, result))[0].text


def _gateway_knows_the_tools(site: Installation) -> None:
    """The gateway checks the names of a task against its own tools."""
    host = site.parts.tools._own
    assert isinstance(host, LocalToolHost)
    host._tools |= {"probe.slow": probe_tools.slow}


@pytest.mark.long
async def test_a_lost_call_with_effects_is_uncertain_and_not_repeated(bare: Installation) -> None:
    async with bare.worker_process(PERDURE_PLUGINS="probe_tools", PYTHONPATH=SUPPORT) as worker:
        run = await bare.start(task(tools=FULL), script(calls(call("probe.hang")), DONE))
        await eventually(lambda: _started(bare, run))
        await worker.kill()
        await worker.start()
        result = await bare.gateway.result(run)
    (block,) = await results(bare, result)
    assert (block.outcome, result.output) == ("effect_uncertain", "Done.")
    assert "look before you call it again" in block.text


async def _started(site: Installation, run: str) -> bool:
    described = await site.handle(run).describe()
    pending = described.raw_description.pending_activities
    return any(
        step.activity_type.name == "call_tool"
        and step.state == 2
        and step.HasField("last_heartbeat_time")
        for step in pending
    )


async def test_written_files_become_a_patch_that_can_be_taken_over(
    probe: Installation, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept\n")
    wanted = task(workspace=str(folder), tools=FULL)
    asked = calls(call("fs.write", path="made.txt", content="made\n", expected_hash="absent"))
    result = await probe.run(wanted, script(asked, DONE))
    assert not (folder / "made.txt").exists()
    found = {artifact.kind: artifact.ref for artifact in result.artifacts}
    assert "+made" in await probe.parts.stores.blobs.get_text(found["patch"])
    base = await probe.parts.workspaces.base(run=result.id)
    changed = await probe.parts.workspaces.apply(
        base=base.hash, tree=found["tree"], target=str(folder)
    )
    assert changed == ("made.txt",)
    assert (folder / "made.txt").read_text() == "made\n"
    assert (folder / "kept.txt").read_text() == "kept\n"


async def test_a_run_that_only_reads_leaves_no_artifacts(probe: Installation) -> None:
    result: RunResult = await probe.run(task(), script(echo("a"), DONE))
    assert result.artifacts == ()
    await books_agree(probe, result)
