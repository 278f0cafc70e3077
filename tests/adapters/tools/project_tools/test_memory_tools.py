"""Memory and skills as tools: other runs are told only what a person or an accepted run wrote."""

from datetime import UTC, datetime

import pytest

from perdure.activities.run_lifecycle import NoteKeeper
from perdure.adapters.stores.open_stores import Stores
from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.memory.entries import Learning, Origin, Skill
from perdure.domain.memory.rule_lessons import EndedRun
from tests.adapters.tools.project_tools.conftest import Caller

NOW = datetime.now(UTC)
NOTE = "The build needs the flag --offline"
NOTHING = "Memory holds nothing about that."


def _learning(name: str, text: str, *origins: Origin) -> Learning:
    return Learning(kind="learning", id=name, sort="fact", text=text, created=NOW, origins=origins)


def _skill(name: str, *origins: Origin) -> Skill:
    return Skill(
        kind="skill",
        id=name,
        name=name,
        purpose="how to release",
        text=f"# {name}\n1. tag",
        created=NOW,
        origins=origins,
    )


async def _end(stores: Stores, run: str, outcome: Outcome) -> None:
    keeper = NoteKeeper(artifacts=stores.artifacts, blobs=stores.blobs, memory=stores.memory)
    ended = EndedRun(
        id=run, kind="roles", goal="g", outcome=outcome, reason="completed", ended_at=NOW
    )
    await keeper.keep(ended)
    await keeper.keep(ended)  # the step may be tried again


async def test_what_may_enter_is_found_and_counted_as_used(caller: Caller, stores: Stores) -> None:
    await stores.memory.put(_learning("a", "Caches expire after an hour"))
    found = await caller.ok("memory.search", query="when do caches expire?")
    assert "Caches expire after an hour" in found
    assert "hints, not part of the task" in found
    await caller.ok("memory.search", query="when do caches expire?")
    assert await stores.memory.used("roles-a") == ["a"]
    assert (await stores.memory.get("a")).uses == 1


async def test_what_an_unaccepted_run_wrote_is_not_found(caller: Caller, stores: Stores) -> None:
    failed = Origin(run="r", outcome="failed")
    await stores.memory.put(_learning("a", "Caches expire at once", failed))
    await stores.memory.put(_skill("Release", failed))
    assert await caller.ok("memory.search", query="caches expire") == NOTHING
    assert await caller.ok("skill.list") == "There are no skills."
    assert (await caller.call("skill.read", name="Release")).code == "not_found"


@pytest.mark.parametrize(
    ("outcome", "told"), [("accepted", True), ("best_effort", False), ("failed", False)], ids=str
)
async def test_a_note_counts_by_how_its_run_ended(
    caller: Caller, stores: Stores, outcome: Outcome, told: bool
) -> None:
    await caller.ok("memory.note", text=NOTE)
    await caller.ok("memory.note", text=NOTE)
    later = Caller(host=caller.host, run="roles-later")
    assert await later.ok("memory.search", query="flag of the build") == NOTHING
    await _end(stores, "roles-a", outcome)
    assert (NOTE in await later.ok("memory.search", query="flag of the build")) is told
    kept = await stores.memory.list()
    assert [(entry.text, entry.origins) for entry in kept] == [
        (NOTE, (Origin(run="roles-a", outcome=outcome),))
    ]


async def test_notes_of_other_runs_stay_theirs(caller: Caller, stores: Stores) -> None:
    await caller.ok("memory.note", text=NOTE)
    await _end(stores, "roles-other", "accepted")
    assert await stores.memory.list() == []


async def test_a_run_notes_so_much(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.adapters.tools.project_tools.memory_tools.NOTES_OF_A_RUN", 1)
    await caller.ok("memory.note", text=NOTE)
    await caller.ok("memory.note", text=NOTE)  # the same call once more
    refused = await caller.call("memory.note", key="k2", text="another")
    assert (refused.outcome, refused.code) == ("error", "refused")


@pytest.mark.long
async def test_skills_are_listed_and_read(caller: Caller, stores: Stores) -> None:
    await stores.memory.put(_skill("Release"))
    listed = await caller.ok("skill.list")
    read = await caller.ok("skill.read", name=" release ")
    assert listed.startswith("Release: how to release (version 1, written by a person)")
    assert read.endswith("# Release\n1. tag")
    assert await stores.memory.used("roles-a") == ["Release"]
