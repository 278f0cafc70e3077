"""Skills on a real server: written in one iteration, named and followed in the next."""

from pathlib import Path

import pytest
from delegating import completes, decides, delegates, delegation, script, works
from installation import Installation
from remembering import avoid

from perdure.domain.memory.entries import Skill

STEPS = "Read the file whole, split it at spaces, and count what is left over. " * 4
COUNTING = f"# Skill: Counting words\n\n## Purpose\nTo count words.\n\n{STEPS}The end of it."
SHORT = "# Skill: Short\nToo short."


def told(reply, *, contains: str):
    """The same reply, given only to a prompt that holds some words."""
    return {**reply, "when": {**reply["when"], "contains": contains}}


@pytest.mark.long
async def test_a_skill_of_one_iteration_is_followed_in_the_next(site: Installation) -> None:
    skills = [{"markdown": COUNTING}, {"markdown": SHORT}, {"markdown": "  "}]
    result = await site.run(
        delegation(),
        script(
            delegates("w1"),
            works("w1", skills_created=skills),
            told(
                delegates("w2", skills=["counting_words", "nobody-knows"]),
                contains="- counting-words: To count words.",
            ),
            told(works("w2"), contains="The end of it."),
            told(completes(), contains="There is no skill nobody-knows"),
        ),
    )
    assert (result.outcome, result.reason) == ("accepted", "completed")
    assert result.skills == ("counting-words",)
    kept = await site.parts.stores.memory.skill(f"counting-words@{result.id}")
    assert isinstance(kept, Skill)
    assert (kept.approved, kept.text) == (False, COUNTING)


async def test_a_manager_sees_a_line_of_a_skill_and_never_its_body(site: Installation) -> None:
    result = await site.run(
        delegation(),
        script(
            delegates("w1"),
            works("w1", skills_created=[{"markdown": COUNTING}]),
            # No manager is told the body: this entry fits none, and the next one is taken.
            told(decides("fail", why="saw the body"), contains="split it at spaces"),
            completes(),
        ),
    )
    assert result.outcome == "accepted"


@pytest.mark.long
async def test_skills_pass_through_the_tree_in_both_directions(site: Installation) -> None:
    result = await site.run(
        delegation(),
        script(
            delegates("w1"),
            works("w1", skills_created=[{"markdown": COUNTING}]),
            delegates("m1", skills=["counting-words"], sub_manager=True),
            told(
                delegates("w2", by="m1", skills=["counting-words"]),
                contains="- counting-words: To count words.",
            ),
            told(
                works("w2", skills_created=[{"markdown": COUNTING.replace("Counting", "Adding")}]),
                contains="The end of it.",
            ),
            completes("Counted.", by="m1"),
            told(completes(), contains="- adding-words: To count words."),
        ),
    )
    assert (result.outcome, result.reason) == ("accepted", "completed")
    assert set(result.skills) == {"counting-words", "adding-words"}


async def test_a_skill_that_the_manager_wrote_is_catalogued(site: Installation) -> None:
    result = await site.run(
        delegation(),
        script(
            delegates("w1", skills=[COUNTING, SHORT]),
            told(works("w1"), contains="Procedure to follow, skill “counting-words”"),
            # Given once more it is the same skill, and no version of it.
            told(delegates("w2", skills=[COUNTING]), contains="- counting-words: To count words."),
            told(works("w2"), contains="The end of it."),
            completes(),
        ),
    )
    assert (result.outcome, result.skills) == ("accepted", ("counting-words",))
    saved = [e.data async for e in site.gateway.events(result.id) if e.type == "skill_saved"]
    assert [(one["name"], one["version"]) for one in saved] == [("counting-words", 1)]
    kept = await site.parts.stores.memory.skill(f"counting-words@{result.id}")
    assert isinstance(kept, Skill)
    assert kept.approved is False


async def test_a_managers_skill_reaches_a_manager_below_by_name(site: Installation) -> None:
    result = await site.run(
        delegation(),
        script(
            delegates("m1", skills=[COUNTING], sub_manager=True),
            told(
                delegates("w1", by="m1", skills=["counting-words"]),
                contains="- counting-words: To count words.",
            ),
            told(works("w1"), contains="The end of it."),
            completes("Counted.", by="m1"),
            completes(),
        ),
    )
    assert result.outcome == "accepted"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with skills: one with facts in front, one that is no text."""
    skills = tmp_path / "work" / "skills"
    skills.mkdir(parents=True)
    facts = "---\nname: other\ndescription: To ship a release.\n---\n"
    (skills / "Ship It.md").write_text(f"{facts}# Shipping\n\nTag it, then push the tag.")
    (skills / "broken.md").write_bytes(b"\xff\xfe\x00")
    (skills / "notes.txt").write_text("no skill")
    return tmp_path / "work"


async def test_skills_of_the_workspace_are_read(site: Installation, folder: Path) -> None:
    result = await site.run(
        delegation(workspace=str(folder)),
        script(
            told(
                delegates("w1", skills=["skills/Ship It.md"]),
                contains="- ship-it: To ship a release.",
            ),
            told(works("w1"), contains="Tag it, then push the tag."),
            told(completes(), contains="- "),
        ),
    )
    assert (result.outcome, result.skills) == ("accepted", ())
    shown = await told_to_manager(site, result.id)
    assert "skills/broken.md was not read as a skill: it is not UTF-8 text" in shown
    assert "notes" not in shown and "Tag it" not in shown


async def test_a_skill_that_a_worker_writes_as_a_file_is_read(
    site: Installation, folder: Path
) -> None:
    call = {"name": "fs.write", "arguments": {"path": "skills/count.md", "content": COUNTING}}
    result = await site.run(
        delegation(workspace=str(folder), tools={"access": "full", "allow": ["fs.*"]}),
        script(
            delegates("w1"),
            {"when": {"role": "worker", "worker": "w1"}, "tool_calls": [call]},
            works("w1"),
            told(delegates("w2", skills=["count"]), contains="- count: To count words."),
            told(works("w2"), contains="The end of it."),
            completes(),
        ),
    )
    assert result.outcome == "accepted"


async def told_to_manager(site: Installation, run: str) -> str:
    """All that a manager was shown."""
    head = (await site.gateway.records(run))[0].transcript
    assert head is not None
    return "\n".join(one.text for one in await site.parts.stores.transcripts.load(head))


async def test_a_later_run_gets_what_a_person_approved(site: Installation) -> None:
    memory = site.parts.stores.memory
    first = await site.run(
        delegation(),
        script(delegates("w1"), works("w1", skills_created=[{"markdown": COUNTING}]), completes()),
    )
    blind = script(
        told(decides("fail", why="saw it"), contains="counting-words"), completes("Nothing seen.")
    )
    task = delegation(goal="Count the words of the bottle.")
    assert (await site.run(task, blind)).output == "Nothing seen."
    waiting = await memory.skill(f"counting-words@{first.id}")
    assert isinstance(waiting, Skill)
    await memory.put(
        waiting.model_copy(
            update={"id": "skill-counting", "name": "counting-words", "approved": True}
        )
    )
    seen = script(told(completes("Seen."), contains="- counting-words: To count words."))
    assert (await site.run(task, seen)).output == "Seen."


async def test_a_manager_knows_what_earlier_runs_learned(site: Installation) -> None:
    lesson = "Never describe a bottle before it was measured."
    await site.parts.stores.memory.put(avoid("l1", lesson))
    knows = {"role": "manager", "contains": lesson}
    result = await site.run(delegation(), script({**completes(), "when": knows}))
    assert result.outcome == "accepted"
    recalled = [e.data async for e in site.gateway.events(result.id) if e.type == "recalled"]
    assert [data["text"] for data in recalled] == [f"1 anti-pattern: “{lesson}”"]
    assert (await site.parts.stores.memory.get("l1")).uses == 1


async def test_without_recall_a_manager_is_told_nothing(site: Installation) -> None:
    await site.parts.stores.memory.put(avoid("l1", "Never describe a bottle."))
    result = await site.run(delegation(recall=False), script(completes()))
    assert result.outcome == "accepted"
    assert (await site.parts.stores.memory.get("l1")).uses == 0
