"""Patterns from a shell: look, approve, reject, and say when they are looked for."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from remembering import episode

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.memory.entries import Learning, MemoryEntry, Origin, Pattern, Skill
from perdure.interfaces.cli.commands.patterns import interval_of
from tests.interfaces.cli.memory import Installation

NOW = datetime.now(UTC)
RUNS = tuple(Origin(run=f"run-{number}", outcome="accepted") for number in range(3))
PATTERN = Pattern(
    kind="pattern",
    id="p1234567",
    sort="category",
    subject=("code",),
    category="code",
    text="“code” came up 3 times. 3 of them were accepted.",
    confidence=0.75,
    seen=3,
    created=NOW,
    origins=RUNS,
)
PAIR = PATTERN.model_copy(
    update={"id": "q1", "sort": "pair", "subject": ("code", "docs"), "confidence": 0.8}
)
ENTRIES: tuple[MemoryEntry, ...] = (
    PATTERN,
    PAIR,
    episode("e1", "Limit the rate").model_copy(
        update={"category": "Code", "text": "Counting per address helped.", "origins": RUNS[:1]}
    ),
    Skill(kind="skill", id="s1", name="taken", created=NOW),
    Learning(kind="learning", id="l1", sort="fact", text="A fact.", created=NOW),
)


@pytest.fixture
def perdure(tmp_path: Path) -> Installation:
    """A command line over a real store that holds two patterns."""
    asyncio.run(put(tmp_path / "home"))
    (tmp_path / "own.md").write_text("# Limits\nCount, then refuse.\n", encoding="utf-8")
    return Installation(folder=tmp_path, remembers=True)


async def put(home: Path) -> None:
    stores = await open_stores(home)
    for entry in ENTRIES:
        await stores.memory.put(entry)
    await stores.close()


def told(perdure: Installation, *argv: str) -> dict[str, object]:
    assert perdure.run("patterns", *argv, "--json") == 0
    return json.loads(perdure.out)


def test_the_most_certain_is_listed_first_with_what_to_do(perdure: Installation) -> None:
    assert perdure.run("patterns") == 0
    first, second, way = perdure.out.splitlines()[1:]
    assert first.split()[:5] == ["q1", "pair", "proposed", "0.80", "3"]
    assert second.split()[:5] == ["p1234567", "category", "proposed", "0.75", "3"]
    assert way == "make a skill of one: perdure patterns approve q1 (or reject)"


def test_an_approved_pattern_is_a_skill(perdure: Installation) -> None:
    done = told(perdure, "approve", "p12")
    assert done["pattern"]["state"] == "approved"  # type: ignore[index]
    assert perdure.run("skills", "show", "code") == 0
    assert "- Limit the rate (0.91): Counting per address helped." in perdure.out
    assert "approved by ann" in perdure.out
    listed = told(perdure, "list", "--state", "proposed")["patterns"]
    assert [item["id"] for item in listed] == ["q1"]  # type: ignore[union-attr,index]
    assert perdure.run("patterns", "reject", "p12") == 5
    assert "approved already" in perdure.err


def test_a_person_may_write_the_skill(perdure: Installation) -> None:
    assert perdure.run("patterns", "approve", "q1", "--file", "own.md", "--name", "limits") == 0
    assert "q1 is now the skill limits" in perdure.out
    assert perdure.run("skills", "show", "limits", "--json") == 0
    skill = json.loads(perdure.out)
    assert (skill["categories"], skill["origins"]) == (["code", "docs"], [])
    assert "Count, then refuse." in skill["text"]


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        pytest.param(("approve", "zz"), 4, "zz", id="unknown"),
        pytest.param(("approve", "l1"), 2, "is not a pattern", id="a learning"),
        pytest.param(("approve", "p1", "--name", "taken"), 5, "a skill taken already", id="taken"),
        pytest.param(("schedule", "--every", "soon"), 2, "not an interval", id="no interval"),
        pytest.param(("schedule", "--every", "1h", "--off"), 2, "exclude", id="both"),
    ],
)
def test_what_cannot_be_is_said(
    perdure: Installation, argv: tuple[str, ...], code: int, said: str
) -> None:
    assert perdure.run("patterns", *argv) == code
    assert said in perdure.err


def test_a_rejected_one_is_proposed_no_more(perdure: Installation) -> None:
    assert perdure.run("patterns", "reject", "q1") == 0
    assert "rejected q1" in perdure.out
    assert [item["state"] for item in told(perdure)["patterns"]] == ["rejected", "proposed"]  # type: ignore[union-attr,index]


def test_the_schedule_is_told_set_and_ended(perdure: Installation) -> None:
    assert told(perdure, "schedule") == {"type": "schedule", "schedule": None}
    assert perdure.run("patterns", "schedule", "--every", "24h") == 0
    assert "Patterns are looked for every 1 d: 0 looks so far" in perdure.out
    assert told(perdure, "schedule", "--off") == {"type": "schedule", "schedule": None}
    assert perdure.run("patterns", "schedule", "--off") == 0
    assert "Nothing was scheduled." in perdure.err


def test_one_look_at_once_says_what_it_gave(perdure: Installation) -> None:
    assert perdure.run("patterns", "schedule", "--now") == 0
    assert perdure.out.strip() == "✓ looked at 4 events, 2 patterns, 1 of them new proposals"
    assert told(perdure, "schedule", "--now")["proposed"] == 1


def test_a_schedule_and_a_look_at_once_are_one_document(perdure: Installation) -> None:
    assert perdure.run("patterns", "schedule", "--every", "24h", "--now") == 0
    assert "looked at 4 events" in perdure.out
    assert "looked for every 1 d" in perdure.out
    both = told(perdure, "schedule", "--every", "24h", "--now")
    assert both["type"] == "schedule"
    assert both["mined"]["proposed"] == 1  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    ("text", "seconds"), [("24h", 86_400), ("30m", 1_800), (" 7 D ", 604_800), ("90s", 90)]
)
def test_intervals_are_read(text: str, seconds: int) -> None:
    assert interval_of(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "1.5h", "-1h", "1w", "9" * 20 + "h"])
def test_other_words_are_no_interval(text: str) -> None:
    with pytest.raises(InvalidInput):
        interval_of(text)
