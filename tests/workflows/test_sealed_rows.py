"""With a key, neither the database nor Temporal has a word of a run that can be read without it."""

import base64
from datetime import UTC, datetime
from pathlib import Path

import agent_runs
import pytest
import refining
import teams
from installation import Installation, installation
from invariants import executions
from live_calls import live_call
from temporalio.testing import WorkflowEnvironment

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.foundation.errors import StoreError
from perdure.domain.foundation.names import learn_run_id
from perdure.domain.memory.entries import Skill
from perdure.domain.projects.records import Membership, Reach, Session, Todo
from perdure.gateway.types import RunFilter

CANARY = "zanzibar"
KEY, NEXT = (bytes([n]) * 32 for n in (1, 2))
NOW = datetime(2026, 11, 22, tzinfo=UTC)
OWN = Membership(scope="project", owner="p")


async def _content(site: Installation) -> list[str]:
    """Runs of three kinds whose every word is the canary, and rows beside them."""
    label = {"metadata": {"label": CANARY}}
    look = {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]}
    plays = (
        (agent_runs.task(goal=f"look for {CANARY}", **label), agent_runs.script(look, _says())),
        (
            {**refining.spec(), "goal": f"Name ten {CANARY}.", "learn": True, **label},
            {"replies": [_says(), _says()]},
        ),
        (
            {**teams.task(teams.team(*teams.PAIR)), "goal": f"Build {CANARY}.", **label},
            teams.script([
                teams.says("coder", f"A {CANARY}."),
                teams.says("reviewer", teams.rejected(CANARY)),
                teams.says("coder", f"A better {CANARY}."),
                teams.says("reviewer", teams.APPROVED),
            ]),
        ),
    )  # fmt: skip
    runs = [await site.start(spec, script) for spec, script in plays]
    for run in runs:
        await site.gateway.result(run)
    await site.gateway.result(learn_run_id(runs[1]))
    stores = site.parts.stores
    await stores.todos.add_todo(
        Todo(id="t", belongs=OWN, run="r", text=CANARY, by="r", created_at=NOW, changed_at=NOW)
    )
    await stores.sessions.add_session(Session(id="s", title=CANARY, created_at=NOW))
    await stores.memory.put(_skill())
    await stores.verdicts.put_verdict("k", CANARY)
    await stores.live().show([live_call(text=CANARY)])
    return runs


def _says() -> dict[str, object]:
    return {"text": f"Found {CANARY}."}


def _skill() -> Skill:
    return Skill(
        kind="skill",
        id="skill-1",
        name=CANARY,
        text=f"# {CANARY}\n\nLook for {CANARY}.",
        category=CANARY,
        created=NOW,
    )


@pytest.mark.long
async def test_no_row_file_or_history_has_a_word_of_a_sealed_run(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_ROW_KEY", base64.b64encode(KEY).decode())
    home, address = tmp_path / "home", server.client.service_client.config.target_host
    async with installation(home, address, encryption_key="env:TEST_ROW_KEY") as site:
        async with site.worker():
            runs = await _content(site)
        assert not [run for run in runs if CANARY in run]
        # With the key all is there as before.
        row = await site.parts.stores.records.run(runs[0])
        assert row is not None and (row.goal, row.label) == (f"look for {CANARY}", CANARY)
        assert CANARY in ((await site.gateway.result(runs[0])).output or "")
        found = await site.parts.stores.memory.skill(CANARY)
        assert found == _skill()
        assert await site.parts.stores.memory.list(category=CANARY)
        asked = await site.parts.stores.memory.candidates([CANARY], kinds=("skill",))
        assert (len(asked.entries), asked.corpus.holders[CANARY] > 0) == (1, True)
        listed = await site.gateway.list(RunFilter(label=CANARY))
        assert {run.id for run in listed.runs} >= set(runs)
        assert {run.label for run in listed.runs} == {CANARY}
        histories = [one for run in runs for one in await executions(site, run)]
    kept = [event.SerializeToString() for one in histories for event in one.events]
    assert not [data for data in kept if CANARY.encode() in data.lower()]
    files = [path for path in home.rglob("*") if path.is_file() and "ready" not in path.name]
    assert any(path.name == "perdure.sqlite" for path in files)
    assert not [path for path in files if CANARY.encode() in path.read_bytes().lower()]


async def test_a_changed_key_reads_what_the_old_one_sealed(tmp_path: Path) -> None:
    reach = Reach(run="r", project="p")
    todo = Todo(id="t", belongs=OWN, run="r", text=CANARY, by="r", created_at=NOW, changed_at=NOW)
    for keys in ((), (KEY,), (NEXT, KEY)):
        stores = await open_stores(tmp_path, encryption_keys=keys)
        await stores.todos.add_todo(todo.model_copy(update={"id": f"t{len(keys)}"}))
        await stores.memory.put(_skill())
        assert {one.text for one in await stores.todos.todos(reach=reach)} == {CANARY}
        assert await stores.memory.skill(CANARY) is not None
        asked = await stores.memory.candidates([CANARY], kinds=("skill",))
        assert len(asked.entries) == 1
        await stores.close()
    without = await open_stores(tmp_path, encryption_keys=(NEXT,))
    with pytest.raises(StoreError, match="PERDURE_ENCRYPTION_OLD_KEYS"):
        await without.todos.todos(reach=reach)
    await without.close()
