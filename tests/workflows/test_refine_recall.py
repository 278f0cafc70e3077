"""Recall before the first draft: what memory holds reaches the models, once, within its share."""

from datetime import UTC, datetime

import pytest
from installation import Installation
from refining import TONE, events, judged, prompt_of, spec, verdict, written

from perdure.domain.memory.entries import Learning, Origin, Skill

THEN = datetime(2026, 1, 2, tzinfo=UTC)
SHRUBS = Learning(
    kind="learning",
    sort="anti_pattern",
    id="l1",
    text="Never count shrubs among ten trees.",
    created=THEN,
    origins=(Origin(run="earlier", outcome="accepted"),),
)
HABIT = Skill(
    kind="skill",
    id="s1",
    name="tree-list",
    purpose="list trees",
    text="1. Think of a forest.\n2. Name ten trees of it.",
    deterministic=True,
    created=THEN,
)


def task(*rubric: object, skills: tuple[str, ...] = (), **refine: object) -> dict[str, object]:
    return {**spec(list(rubric) or [TONE], **refine), "recall": True, "skills": list(skills)}


async def test_the_first_prompt_knows_what_earlier_runs_learned(site: Installation) -> None:
    await site.parts.stores.memory.put(SHRUBS)
    replies = [*written("first", "second"), *judged(verdict(0.5), verdict(0.9))]
    run = await site.start(task(), {"replies": replies})
    result = await site.gateway.result(run)
    first, second = [await prompt_of(site, item.transcript) for item in result.iterations]
    assert SHRUBS.text in first[0][1]
    assert SHRUBS.text not in "".join(text for _, text in second)
    story = {event.type: event.data for event in await events(site, run)}
    assert "1 anti-pattern" in str(story["recalled"]["text"])
    assert (await site.parts.stores.memory.get("l1")).uses == 1


async def test_what_found_no_place_is_named(site: Installation) -> None:
    for number in range(12):
        text = f"Tree {number}: " + " ".join(f"about{number}x{word}" for word in range(9))
        await site.parts.stores.memory.put(
            SHRUBS.model_copy(update={"id": f"t{number}", "text": text})
        )
    replies = [*written("x"), *judged(verdict(0.9))]
    run = await site.start(task(), {"replies": replies})
    await site.gateway.result(run)
    story = {event.type: event.data for event in await events(site, run)}
    assert story["recalled"]["text"] == "10 anti-patterns, 2 left out"
    left_out = story["recalled"]["left_out"]
    assert isinstance(left_out, list)
    assert len(left_out) == 2


async def test_the_planner_knows_it_too(site: Installation) -> None:
    await site.parts.stores.memory.put(SHRUBS)
    asked = {"role": "planner", "contains": "Never count shrubs"}
    plan = {"when": asked, "json": {"steps": [{"title": "t", "acceptance": "a"}], "risks": []}}
    replies = [plan, *written("first"), *judged(verdict(0.9))]
    run = await site.start(task(plan="on"), {"replies": replies})
    await site.gateway.result(run)
    assert (await site.status(run)).plan == ("t",)


async def test_nothing_is_recalled_where_it_is_switched_off(site: Installation) -> None:
    await site.parts.stores.memory.put(SHRUBS)
    run = await site.start(spec([TONE]), {"replies": [*written("x"), *judged(verdict(0.9))]})
    result = await site.gateway.result(run)
    assert "recalled" not in [event.type for event in await events(site, run)]
    first = await prompt_of(site, result.iterations[0].transcript)
    assert SHRUBS.text not in first[0][1]


async def test_a_deterministic_skill_that_is_asked_for_needs_no_evaluation(
    site: Installation,
) -> None:
    await site.parts.stores.memory.put(HABIT)
    run = await site.start(task(skills=("tree-list",)), {"replies": written("oak, elm")})
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason, result.read_only) == ("accepted", "completed", False)
    assert result.iterations[0].evaluation == "skipped_deterministic"
    assert result.skills == ("tree-list",)
    first = await prompt_of(site, result.iterations[0].transcript)
    assert "Name ten trees of it." in first[0][1]


@pytest.mark.parametrize(
    ("skill", "named", "settings"),
    [
        pytest.param({}, (), {}, id="recalled first, not named"),
        pytest.param({"categories": ("trees",)}, (), {}, id="of the task's category"),
        pytest.param({"purpose": "name ten trees"}, (), {}, id="in the words of the goal"),
        pytest.param({"deterministic": False}, ("tree-list",), {}, id="named, not deterministic"),
        pytest.param({"name": "shrubs"}, ("tree-list",), {}, id="another than the named one"),
        pytest.param({}, ("tree-list",), {"classify": "off"}, id="named, evaluation asked for"),
    ],
)
async def test_any_other_skill_is_evaluated(
    site: Installation,
    skill: dict[str, object],
    named: tuple[str, ...],
    settings: dict[str, object],
) -> None:
    await site.parts.stores.memory.put(HABIT.model_copy(update=skill))
    replies = [*written("oak, elm"), *judged(verdict(0.9))]
    result = await site.run(task(skills=named, **settings), {"replies": replies})
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert (result.iterations[0].evaluation, result.iterations[0].score) == ("full", 0.9)


async def test_a_skill_that_nobody_has_is_named(site: Installation) -> None:
    replies = [*written("x"), *judged(verdict(0.9))]
    run = await site.start(task(skills=("bonsai",)), {"replies": replies})
    await site.gateway.result(run)
    story = {event.type: event.data for event in await events(site, run)}
    assert story["recalled"]["missing"] == ["bonsai"]
