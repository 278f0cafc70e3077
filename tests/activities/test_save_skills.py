"""The steps that keep what workers write down, and offer what earlier runs left."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest
from remembering import START, skill
from temporalio.testing import ActivityEnvironment

from perdure.activities.skills import OfferSkills, SaveSkills
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.workspaces.skill_folder import WorkingSkills
from perdure.domain.delegation.skills import (
    OfferSkillsReport,
    OfferSkillsRequest,
    SaveSkillsReport,
    SaveSkillsRequest,
)
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.memory.entries import Skill

NOW = START + timedelta(weeks=1)
WORDS = "split at spaces and count what is left over " * 5
COUNTING = f"# Skill: Counting words\n\n## Purpose\nTo count words.\n\n{WORDS}"


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores]:
    opened = await open_stores(tmp_path / "home")
    yield opened
    await opened.close()


async def save(
    stores: Stores, *texts: str, folder: Path | None = None, **versions: int
) -> SaveSkillsReport:
    step = SaveSkillsRequest(
        run="delegation-a.w1",
        root_run="delegation-a",
        iteration=1,
        texts=tuple([await stores.blobs.put(text.encode()) for text in texts]),
        now=NOW,
        versions={name.replace("_", "-"): version for name, version in versions.items()},
        folder=None if folder is None else str(folder),
        category="text",
    )
    saving = SaveSkills(blobs=stores.blobs, memory=stores.memory, folder=WorkingSkills())
    return await ActivityEnvironment().run(saving.save_skills, step)


async def offer(stores: Stores, *asked: str) -> OfferSkillsReport:
    step = OfferSkillsRequest(
        run="delegation-b",
        root_run="delegation-b",
        goal="Count the words",
        now=NOW,
        category="text",
        asked=asked,
    )
    offering = OfferSkills(blobs=stores.blobs, memory=stores.memory)
    return await ActivityEnvironment().run(offering.offer_skills, step)


async def test_a_skill_becomes_a_file_and_a_proposal(stores: Stores, tmp_path: Path) -> None:
    report = await save(stores, COUNTING, "# Skill: Short\nToo few words.", folder=tmp_path)
    assert report.short == 1
    assert [(item.name, item.version, item.line) for item in report.saved] == [
        ("counting-words", 1, "counting-words: To count words.")
    ]
    written = (tmp_path / "skills" / "counting-words.md").read_text(encoding="utf-8")
    assert written == f"{COUNTING.strip()}\n"
    kept = await stores.memory.skill("counting-words@delegation-a")
    assert isinstance(kept, Skill)
    assert (kept.approved, kept.proposed_by, kept.category) == (False, "delegation-a", "text")


async def test_the_latest_of_a_name_wins_and_a_repeat_changes_nothing(
    stores: Stores, tmp_path: Path
) -> None:
    newer = f"{COUNTING} Better."
    for _ in range(2):
        report = await save(stores, COUNTING, newer, folder=tmp_path, counting_words=3)
        assert [item.version for item in report.saved] == [4, 5]
        kept = await stores.memory.skill("counting-words@delegation-a")
        assert isinstance(kept, Skill)
        assert (kept.version, kept.text) == (2, newer)
        assert [old.text for old in kept.earlier] == [COUNTING.strip()]
    assert (tmp_path / "skills" / "counting-words.md").read_text(encoding="utf-8") == f"{newer}\n"


async def test_a_text_that_is_written_again_after_another_is_the_latest_one(
    stores: Stores,
) -> None:
    newer = f"{COUNTING} Better."
    for text in (COUNTING, newer, COUNTING):
        await save(stores, text)
    kept = await stores.memory.skill("counting-words@delegation-a")
    assert isinstance(kept, Skill)
    assert (kept.version, kept.text) == (3, COUNTING.strip())
    assert [old.text for old in kept.earlier] == [COUNTING.strip(), newer]


async def test_without_a_folder_no_file_is_written(stores: Stores, tmp_path: Path) -> None:
    assert (await save(stores, COUNTING)).saved
    assert not (tmp_path / "skills").exists()


async def test_a_link_in_place_of_the_folder_is_not_followed(
    stores: Stores, tmp_path: Path
) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (inside / "skills").symlink_to(outside)
    with pytest.raises(ToolFailure):
        await WorkingSkills().write(str(inside), name="a", text=COUNTING)
    assert list(outside.iterdir()) == []


async def test_what_waits_for_approval_is_offered_to_no_run(stores: Stores) -> None:
    await save(stores, COUNTING)
    await stores.memory.put(skill("word-lists", purpose="Count the words of lists", text="1. Sort"))
    report = await offer(stores, "word-lists", "counting-words@delegation-a", "nothing")
    assert list(report.skills) == ["word-lists"]
    assert report.skills["word-lists"].earlier
    assert report.missing == ("counting-words@delegation-a", "nothing")
    text = await stores.blobs.get_text(report.skills["word-lists"].ref)
    assert text == "1. Sort"
    used = await stores.memory.skill("word-lists")
    assert used is not None and used.uses == 1
