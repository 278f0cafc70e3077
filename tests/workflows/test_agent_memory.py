"""Memory of agent runs: one that asks for it learns, and the next one recalls."""

from collections.abc import Sequence
from datetime import UTC, datetime

from installation import Installation
from refining import events, prompt_of

from perdure.domain.foundation.names import learn_run_id
from perdure.domain.memory.entries import Episode, Learning, Origin, Skill
from perdure.domain.run.result import RunResult

GOAL = "Name ten trees of the forest."
THEN = datetime(2026, 1, 2, tzinfo=UTC)
LESSON = Learning(
    kind="learning",
    sort="anti_pattern",
    id="l1",
    text="Never count shrubs among ten trees.",
    created=THEN,
    origins=(Origin(run="earlier", outcome="accepted"),),
)
SKILL = Skill(
    kind="skill",
    id="s1",
    name="tree-list",
    purpose="list trees",
    text="1. Think of a forest.\n2. Name ten trees of it.",
    created=THEN,
)


def task(**more: object) -> dict[str, object]:
    return {"kind": "agent", "goal": GOAL, "tools": {"access": "minimal"}, **more}


def says(*texts: str) -> dict[str, object]:
    return {"replies": [{"text": text} for text in texts]}


async def asked(site: Installation, result: RunResult) -> str:
    """All that the model was shown and said."""
    assert result.transcript is not None
    return "\n".join(text for _, text in await prompt_of(site, result.transcript))


async def told(site: Installation, run: str) -> Sequence[str]:
    return [event.type for event in await events(site, run)]


async def test_what_one_run_learned_the_next_one_recalls(site: Installation) -> None:
    first = await site.run(task(learn=True), says("oak, elm, ash"))
    assert first.learnings_started
    learned = await site.gateway.result(learn_run_id(first.id))
    assert (learned.kind, learned.outcome) == ("learn", "accepted")
    (episode,) = await site.parts.stores.memory.list(kinds=("episode",))
    assert isinstance(episode, Episode)
    assert (episode.goal, episode.outcome) == (GOAL, "accepted")
    second = await site.run(task(recall=True), says("beech"))
    assert f"“{GOAL}” ended accepted" in await asked(site, second)
    assert not second.learnings_started
    story = await told(site, second.id)
    assert story.index("recalled") < story.index("iteration_started")


async def test_nothing_of_a_run_that_was_not_accepted_is_recalled(site: Installation) -> None:
    failed = await site.run(task(learn=True), {"replies": [{"error": "refusal"}]})
    assert failed.outcome == "failed"
    await site.gateway.result(learn_run_id(failed.id))
    (episode,) = await site.parts.stores.memory.list(kinds=("episode",))
    assert isinstance(episode, Episode)
    assert episode.outcome == "failed"
    second = await site.run(task(recall=True), says("beech"))
    assert "ended failed" not in await asked(site, second)


async def test_lessons_and_skills_stand_behind_the_task_once(site: Installation) -> None:
    memory = site.parts.stores.memory
    await memory.put(LESSON)
    await memory.put(SKILL)
    result = await site.run(task(recall=True, skills=["tree-list"]), says("oak"))
    shown = await asked(site, result)
    assert shown.index(GOAL) < shown.index(LESSON.text) < shown.index("Name ten trees of it.")
    assert shown.count(LESSON.text) == 1
    assert result.skills == ("tree-list",)
    assert (await memory.get("l1")).uses == 1


async def test_memory_takes_no_part_unless_it_is_asked_for(site: Installation) -> None:
    await site.parts.stores.memory.put(LESSON)
    result = await site.run(task(), says("oak"))
    assert LESSON.text not in await asked(site, result)
    assert not result.learnings_started
    assert "recalled" not in await told(site, result.id)
