"""What an agent can take in: long texts in parts, waits that its client lives through, lists."""

import asyncio

import pytest
from mcp import Client
from mcp_over_http import remote, serving, token, told

from perdure.interfaces.mcp import runs
from perdure.interfaces.mcp.server import build_server
from perdure.interfaces.mcp.text_parts import MOST_CHARACTERS
from tests.interfaces.mcp.conftest import Door


async def ended(door: Door, text: str) -> str:
    """The id of a run that gave this output."""
    run = await door.site.start({"kind": "agent", "goal": "write"}, {"replies": [{"text": text}]})
    await door.site.gateway.result(run)
    return run


async def test_a_long_output_is_read_in_parts(door: Door) -> None:
    whole = "".join(f"Zeile {number} für dich. " for number in range(3_000))
    run = await ended(door, whole)
    async with Client(build_server(door.mcp)) as client:
        answer = await client.call_tool("run_result", {"id": run})
        result = answer.structured_content
        assert result is not None
        assert len(getattr(answer.content[0], "text", "")) < 2 * MOST_CHARACTERS
        assert (result["excerpt"], result["output"]) == (True, whole[:MOST_CHARACTERS])
        part = await told(client, "run_text", id=run, ref=result["output_ref"])
        read = part["text"]
        while (offset := part["next_offset"]) is not None:
            part = await told(client, "run_text", id=run, ref=result["output_ref"], offset=offset)
            read += part["text"]
        beyond = await told(client, "run_text", id=run, ref=result["output_ref"], offset=10**6)
    assert (read, part["total_characters"]) == (whole, len(whole))
    assert "offset: found 1000000; the text has" in beyond


async def test_a_short_output_comes_whole(door: Door) -> None:
    run = await ended(door, "Iron oxide.")
    async with Client(build_server(door.mcp)) as client:
        result = await told(client, "run_result", id=run)
    assert (result["excerpt"], result["output"]) == (False, "Iron oxide.")


async def test_a_reference_of_another_run_is_not_read(door: Door) -> None:
    mine, other = await ended(door, "mine"), await ended(door, "somebody else's")
    async with Client(build_server(door.mcp)) as client:
        ref = (await told(client, "run_result", id=other))["output_ref"]
        refused = await told(client, "run_text", id=mine, ref=ref)
    assert f"The run {mine} names no reference" in refused


async def test_the_text_of_a_stage_is_read_by_its_address(door: Door) -> None:
    async with Client(build_server(door.mcp)) as client:
        started = await told(
            client, "loop_start", definition="pair", goal="say", parameters={"topic": "rust"}
        )
        status = await told(client, "run_wait", id=started["id"], seconds=60)
        refs = [stage["output_ref"] for stage in status["stages"] if stage["output_ref"]]
        texts = [await told(client, "run_text", id=started["id"], ref=ref) for ref in refs]
    assert texts
    assert all(text["text"] for text in texts)


async def test_runs_of_every_kind_are_listed(guarded: Door) -> None:
    text = await token(guarded, "read", "operate")
    run = await ended(guarded, "Iron oxide.")
    async with serving(guarded) as url, remote(url, text) as client:
        async with asyncio.timeout(20):  # the server lists a run a moment after it began
            while True:
                listed = await told(client, "run_list")
                if found := [row for row in listed["runs"] if row["id"] == run]:
                    break
        wrong = await told(client, "run_list", status="runing")
    assert (found[0]["kind"], found[0]["goal"]) == ("agent", "write")
    assert "Did you mean running?" in wrong


async def test_who_waits_is_told_that_the_run_goes_on(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that hear nothing give a call up after a minute, and many know no longer limit."""
    monkeypatch.setattr(runs, "PROGRESS_S", 0.2)
    heard: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    script = {"replies": [{"text": "late", "delay_s": 3}]}
    run = await door.site.start({"kind": "agent", "goal": "slow"}, script)
    async with Client(build_server(door.mcp)) as client:
        listed = await client.list_tools()
        (wait,) = [tool for tool in listed.tools if tool.name == "run_wait"]
        await client.call_tool(
            "run_wait", {"id": run, "seconds": 30}, progress_callback=on_progress
        )
    assert heard
    assert heard == sorted(heard, key=lambda one: one[0])
    assert {total for _, total, _ in heard} == {30}
    assert all(message and "iteration" in message for _, _, message in heard)
    assert wait.input_schema["properties"]["seconds"]["default"] < 60
