"""Skills on a real server: written in one iteration, named and followed in the next."""

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
