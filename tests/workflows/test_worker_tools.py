"""A worker has the tools of its run, or fewer, never more."""

from pathlib import Path

import pytest
from agent_runs import call, calls, results_in
from delegating import completes, delegates, delegation, script, works
from installation import Installation
from teams import APPROVED, says, stage, task, team
from teams import script as team_script

WRITE = call("fs.write", path="pwned.txt", content="x", expected_hash="absent")
WRITES = calls(WRITE, when={"role": "worker", "worker": "w1"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("hi")
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize(
    ("tools", "asked", "has"),
    [
        ({"access": "full", "allow": ["todo.*"]}, {}, "none"),
        ({"access": "full", "allow": []}, {}, "none"),
        ({"access": "full"}, {"tools": ["fs_read"]}, "none"),
        ({"access": "full"}, {"tools": ["fs.read"]}, "fs.read"),
    ],
    ids=["shared tools only", "no tools", "asks for unknown ones", "asks for one"],
)
async def test_a_worker_has_what_its_run_has_or_less(
    site: Installation,
    folder: Path,
    tools: dict[str, object],
    asked: dict[str, list[str]],
    has: str,
) -> None:
    replies = script(delegates("w1", by=None, **asked), WRITES, works("w1"), completes())
    run = await site.run(delegation(workspace=str(folder), tools=tools), replies)
    worker = await site.gateway.result(f"{run.id}.w1-w1")
    (refused,) = await results_in(site, worker.transcript)
    assert refused.text == f"'fs.write' is not a tool you can call now; available: {has}"


@pytest.mark.long
async def test_workers_of_a_stage_without_tools_have_none(site: Installation, folder: Path) -> None:
    loop = {"name": "build", "prompt": "Build it.", "loop": {"kind": "delegation"}}
    above = team({**loop, "access": "full"}, stage("reviewer", role="critic"))
    replies = [
        *(dict(reply) for reply in (delegates("w1"), WRITES, works("w1"), completes())),
        says("critic", APPROVED),
    ]
    given = task(above, workspace=str(folder), tools={"access": "full", "allow": ["todo.*"]})
    result = await site.run(given, team_script(replies))
    child = result.iterations[0].stages[0].child
    worker = await site.gateway.result(f"{child}.w1-w1")
    (refused,) = await results_in(site, worker.transcript)
    assert refused.text == "'fs.write' is not a tool you can call now; available: none"
