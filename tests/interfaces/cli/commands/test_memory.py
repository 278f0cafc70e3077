"""Memory and skills from a shell: look, search, add, forget."""

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from remembering import avoid, episode, learning

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.memory.entries import Event, MemoryEntry, Origin
from perdure.domain.memory.skills import proposal
from perdure.domain.run.status import StoredRun
from tests.interfaces.cli.memory import Installation

NOW = datetime.now(UTC)
ENTRIES = (
    avoid("a1", "Do not use a fixed window", category="code", confidence=0.7, created=NOW),
    learning("l1", "Cakes need eggs", uses=2, last_used=NOW - timedelta(weeks=10)),
    learning("l2", "A rumour", origins=(Origin(run="refine-x", outcome="failed"),)),
    episode("e1", "Limit the rate"),
    Event(kind="event", id="v1", created=NOW, category="code", outcome="failed"),
)
SKILL = "---\nname: Rate limits\ncategories: [code]\n---\n# Steps\nCount, then refuse.\n"


@pytest.fixture
def perdure(tmp_path: Path) -> Installation:
    """A command line over a real store that holds some entries."""
    asyncio.run(put(tmp_path / "home", *ENTRIES))
    (tmp_path / "limits.md").write_text(SKILL, encoding="utf-8")
    return Installation(folder=tmp_path, remembers=True)


async def put(home: Path, *entries: MemoryEntry) -> None:
    stores = await open_stores(home)
    for entry in entries:
        await stores.memory.put(entry)
    await stores.close()


def listed(perdure: Installation, *argv: str) -> list[str]:
    assert perdure.run(*argv, "--json") == 0
    return [entry["id"] for entry in json.loads(perdure.out)["entries"]]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ((), ["a1", "e1", "l1", "l2"]),
        (("list",), ["a1", "e1", "l1", "l2"]),
        (("list", "--kind", "event"), ["v1"]),
        (("list", "--category", "Code"), ["a1"]),
        (("list", "--limit", "1"), ["a1"]),
        (("search", "a window for cakes"), ["a1", "l1"]),
        (("search", "a window for cakes", "--kind", "episode"), []),
        (("search", "!"), []),
    ],
    ids=["alone", "list", "events", "category", "limit", "search", "search a kind", "no words"],
)
def test_what_is_listed(perdure: Installation, argv: tuple[str, ...], expected: list[str]) -> None:
    assert listed(perdure, "memory", *argv) == expected


def test_an_entry_says_what_is_left_of_it_and_where_it_comes_from(perdure: Installation) -> None:
    assert perdure.run("memory") == 0
    rows = {row.split()[0]: row for row in perdure.out.splitlines()}
    assert "anti-pattern" in rows["a1"]
    assert "0.30 of 0.50" in rows["l1"]
    assert "from refine-a, accepted" in rows["l1"]
    assert "Limit the rate (accepted, 0.91)" in rows["e1"]
    assert "not shown to runs: no accepted run wrote them (1)" in perdure.out
    assert perdure.run("memory", "--json") == 0
    told = {entry["id"]: entry for entry in json.loads(perdure.out)["entries"]}
    assert told["l1"]["confidence_left"] == pytest.approx(0.3033, abs=1e-3)
    assert (told["l1"]["recalled"], told["l2"]["recalled"]) == (True, False)
    assert told["l2"]["origins"] == [{"run": "refine-x", "outcome": "failed"}]


def forgotten(perdure: Installation) -> list[str]:
    """What the audit trail says that people dropped."""
    assert perdure.run("audit", "--json") == 0
    entries = json.loads(perdure.out)["entries"]
    return [one["about"] for one in entries if one["action"] == "library_forgotten"]


def test_an_entry_is_forgotten_by_a_beginning_of_its_id(perdure: Installation) -> None:
    assert perdure.run("memory", "forget", "a") == 0
    assert "forgot the learning “Do not use a fixed window”" in perdure.out
    assert listed(perdure, "memory") == ["e1", "l1", "l2"]
    assert perdure.run("memory", "forget", "a1") == 4
    assert "perdure memory list" in perdure.err
    assert perdure.run("memory", "forget", "l") == 2
    assert "l1, l2" in perdure.err
    assert forgotten(perdure) == ["learning a1"]


def test_an_empty_memory_says_so(tmp_path: Path) -> None:
    empty = Installation(folder=tmp_path, remembers=True)
    assert empty.run("memory") == 0
    assert "holds nothing yet" in empty.out
    assert empty.run("memory", "search", "x") == 0
    assert "Nothing in memory shares a word" in empty.out
    assert empty.run("skills") == 0
    assert "perdure skills add FILE.md" in empty.out


def test_earlier_versions_of_a_skill_are_printed(perdure: Installation) -> None:
    for more in ("", "Then tell.\n", "Then wait.\n"):
        (perdure.folder / "limits.md").write_text(SKILL + more, encoding="utf-8")
        assert perdure.run("skills", "add", "limits.md") == 0
    assert perdure.run("skills", "show", "rate-limits") == 0
    assert "1, 2 (perdure skills show rate-limits --version 2)" in perdure.out
    assert "Then wait." in perdure.out
    assert perdure.run("skills", "show", "rate-limits", "--version", "2") == 0
    assert "2; runs are given version 3" in perdure.out
    assert "Then tell." in perdure.out
    assert "Then wait." not in perdure.out
    assert perdure.run("skills", "show", "rate-limits", "--version", "1", "--json") == 0
    told = json.loads(perdure.out)
    assert (told["type"], told["version"]) == ("skill_version", 1)
    assert told["text"].rstrip().endswith("Count, then refuse.")
    assert perdure.run("skills", "show", "rate-limits", "--version", "3") == 0
    assert "Then wait." in perdure.out
    assert perdure.run("skills", "show", "rate-limits", "--version", "9") == 4
    assert "There is no version 9 of rate-limits." in perdure.err
    assert "1, 2, 3" in perdure.err


def test_a_skill_is_added_shown_changed_and_forgotten(perdure: Installation) -> None:
    assert perdure.run("skills", "add", "limits.md") == 0
    assert "rate-limits is added as version 1" in perdure.out
    assert perdure.run("skills", "add", "limits.md") == 0
    assert "rate-limits is there already, as version 1" in perdure.out
    path = perdure.folder / "limits.md"
    path.write_text(SKILL + "Then tell.\n", encoding="utf-8")
    assert perdure.run("skills", "add", "limits.md", "--json") == 0
    told = json.loads(perdure.out)
    assert (told["version"], told["changed"], told["name"]) == (2, True, "rate-limits")
    assert perdure.run("skills", "show", "RATE-LIMITS") == 0
    assert "Count, then refuse.\nThen tell." in perdure.out
    assert "written by a person · file:limits.md" in perdure.out
    assert perdure.run("skills", "list", "--category", "code") == 0
    assert "rate-limits" in perdure.out
    assert perdure.run("skills", "list", "--category", "mail", "--json") == 0
    assert json.loads(perdure.out)["skills"] == []
    assert listed(perdure, "memory", "search", "refuse") == ["skill-rate-limits"]
    assert perdure.run("skills", "forget", "rate-limits") == 0
    assert perdure.run("skills", "show", "rate-limits") == 4
    assert forgotten(perdure) == ["skill skill-rate-limits"]


def test_a_skill_that_is_not_there_is_named_with_its_neighbour(perdure: Installation) -> None:
    assert perdure.run("skills", "add", "limits.md") == 0
    assert perdure.run("skills", "show", "rate-limit") == 4
    assert "Did you mean rate-limits?" in perdure.err
    assert perdure.run("skills", "add", "none.md") == 4
    assert "There is no file" in perdure.err


def test_an_unreadable_entry_is_named_with_its_cure_and_can_be_dropped(
    perdure: Installation, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "home" / "perdure.sqlite")) as connection, connection:
        connection.execute("UPDATE memory SET entry = '{}' WHERE id = 'l1'")
    connection.close()
    assert perdure.run("memory", "list") == 0
    assert "entry l1 cannot be read" in " ".join(perdure.err.split())
    assert "perdure memory forget l1" in " ".join(perdure.err.split())
    assert perdure.run("memory", "forget", "l1") == 0
    assert forgotten(perdure) == ["unreadable l1"]
    assert perdure.run("memory", "list") == 0
    assert "cannot be read" not in perdure.err


def test_a_skill_of_a_run_waits_for_a_person(perdure: Installation) -> None:
    home = perdure.folder / "home"
    text = "# Skill: Counting\nCount, then say so."
    waiting = proposal("counting", text, run="delegation-a", category="code", now=NOW)
    asyncio.run(put(home, waiting))
    assert perdure.run("skills") == 0
    assert "proposed by a run" in perdure.out
    assert "perdure skills approve counting@delegation-a" in perdure.out
    assert perdure.run("skills", "approve", "counting") == 5
    assert "has not ended" in perdure.err
    asyncio.run(ended(home, "delegation-a", "accepted"))
    assert perdure.run("skills", "approve", "counting") == 0
    assert "counting is given to runs from now on, as version 1" in perdure.out
    assert perdure.run("skills", "show", "counting", "--json") == 0
    data = json.loads(perdure.out)
    assert (data["recalled"], data["approved"]) == (True, True)
    assert data["source"].startswith("run delegation-a, approved by ")
    assert perdure.run("skills", "approve", "counting") == 4


async def ended(home: Path, run: str, outcome: str) -> None:
    stores = await open_stores(home)
    await stores.records.put_run(
        StoredRun(
            id=run,
            kind="delegation",
            goal="g",
            label=None,
            lifecycle="completed",
            outcome=outcome,
            started_at=NOW,
            ended_at=NOW,
        )
    )
    await stores.close()
