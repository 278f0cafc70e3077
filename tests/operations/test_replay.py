"""`perdure replay` on real histories: of a run, of a file, of a file that is none."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from installation import Installation
from recordings import FOLDER

from perdure.about import VERSION
from perdure.domain.foundation.errors import InvalidInput
from perdure.operations.replay import replay

KEPT = FOLDER / VERSION / "refine_plateau.json"
SCRIPT = {
    "replies": [
        {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]},
        {"text": "Empty."},
    ]
}


async def perdure(site: Installation, *words: str) -> tuple[int | None, str, str]:
    """Run the command line on an installation; exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "perdure", *words,
        cwd=site.home,
        env={
            **os.environ,
            **site.settings.as_environment(),
            "TEMPORAL_ADDRESS": site.address,
            "COLUMNS": "200",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, errors = await process.communicate()
    return process.returncode, out.decode(), errors.decode()


@pytest.mark.long
async def test_a_finished_run_and_a_file_are_replayed(site: Installation) -> None:
    run = await site.start({"kind": "agent", "goal": "look"}, SCRIPT)
    await site.gateway.result(run)
    (site.home / "old.json").write_bytes(KEPT.read_bytes())
    code, out, errors = await perdure(site, "replay", run, "old.json", "--json")
    assert code == 0, errors
    replayed = json.loads(out)
    assert [(item["source"], item.get("problem")) for item in replayed] == [
        ("old.json", None),
        (run, None),
    ]
    assert all(item["events"] > 20 for item in replayed)


@pytest.mark.long
async def test_a_history_that_does_not_hold_is_told_and_fails(site: Installation) -> None:
    history = json.loads(KEPT.read_text())
    for event in history["events"]:
        scheduled = event.get("activityTaskScheduledEventAttributes")
        if scheduled and scheduled["activityType"]["name"] == "check":
            scheduled["activityType"]["name"] = "examine"
    (site.home / "other.json").write_text(json.dumps(history))
    code, out, _ = await perdure(site, "replay", "other.json")
    assert code == 1
    assert "examine" in out


BROKEN = {
    "not JSON": ("it is no JSON", "Expecting value"),
    "no history": ('{"score": 1}', "does not have"),
    "no events": ('{"events": []}', "it holds no events"),
    "a malformed event": ('{"events": [{"eventId": {}}]}', "eventId"),
}


@pytest.mark.parametrize(("content", "why"), BROKEN.values(), ids=BROKEN)
async def test_a_file_that_is_no_history_is_told(content: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as caught:
        [item async for item in replay({"old.json": content.encode()}, None)]
    assert caught.value.message.startswith("old.json is not the history of a run: ")


async def test_a_history_of_another_product_is_told() -> None:
    foreign = KEPT.read_bytes().replace(b'"RefineLoop"', b'"OrderLoop"')
    with pytest.raises(InvalidInput, match="it is of OrderLoop, not of AgentLoop or "):
        [item async for item in replay({"old.json": foreign}, None)]


async def test_a_history_that_ends_at_its_start_is_told() -> None:
    begun = json.loads(KEPT.read_text())
    begun["events"] = begun["events"][:1]
    with pytest.raises(InvalidInput, match="it ends at its start, so there is nothing to replay"):
        [item async for item in replay({"old.json": json.dumps(begun).encode()}, None)]


@pytest.mark.long
async def test_a_broken_file_ends_the_command_with_a_sentence(
    bare: Installation, tmp_path: Path
) -> None:
    (bare.home / "broken.json").write_text("it is no JSON")
    code, out, errors = await perdure(bare, "replay", "broken.json")
    assert code == 2
    assert "broken.json is not the history of a run" in out + errors
    assert "Traceback" not in out + errors


@pytest.mark.long
async def test_a_step_that_was_never_sent_is_no_difference(site: Installation) -> None:
    """Cancelled while it opens, a run begins its next step and gives it up in the same task."""
    exports: dict[str, bytes] = {}
    for _ in range(5):
        run = await site.start({"kind": "agent", "goal": "look"}, SCRIPT)
        await site.handle(run).cancel()
        await site.gateway.result(run)
        exports[run] = await site.gateway.history_export(run)
    found = [item async for item in replay(exports, site.parts.stores.blobs)]
    assert [item.problem for item in found] == [None] * len(exports)
