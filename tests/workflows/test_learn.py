"""Learning after a run: a child that outlives it, with its own books, adding nothing twice."""

from collections.abc import Sequence

import pytest
from installation import Installation
from refining import TONE, drafts, judged, spec, verdict, written

from perdure.domain.memory.entries import Episode, Event, Learning, MemoryEntry, may_enter
from perdure.domain.names import learn_run_id
from perdure.domain.result import RunResult

PRICE = {"input_per_million": 3, "output_per_million": 15}
FAULTS = [
    {"severity": "important", "dimension": "tone", "title": title, "fix": f"mend {title}"}
    for title in ("cold", "vague", "long")
]
LESSON = {"kind": "anti-pattern", "text": "Do not open with a list.", "confidence": 0.6}


def learner(*replies: object) -> list[dict[str, object]]:
    """Script entries of the learner: lists of lessons, or other entries."""
    when = {"role": "learner"}
    return [
        {"when": when, "json": {"learnings": said}}
        if isinstance(said, list)
        else {"when": when, **said}  # type: ignore[dict-item]
        for said in replies
    ]


async def ended(site: Installation, run: str) -> RunResult:
    """The end of the learning run of a run."""
    return await site.gateway.result(learn_run_id(run))


async def kept(site: Installation, *kinds: str) -> Sequence[MemoryEntry]:
    return await site.parts.stores.memory.list(kinds=kinds)  # type: ignore[arg-type]


HARD = [
    *written("a", "b"),
    *judged(verdict(0.5, *FAULTS), verdict(0.9, resolved=["F1", "F2", "F3"])),
]


async def test_rules_teach_and_memory_keeps_episode_and_event(site: Installation) -> None:
    given = {**spec(improvement_threshold=None), "category": "trees"}
    result = await site.run(given, {"replies": drafts(0.5, 0.4, 0.3)})
    learned = await ended(site, result.id)
    assert result.learnings_started
    assert (learned.kind, learned.outcome, learned.reason) == ("learn", "accepted", "completed")
    (episode,) = await kept(site, "episode")
    (event,) = await kept(site, "event")
    assert isinstance(episode, Episode)
    assert isinstance(event, Event)
    assert (episode.goal, episode.outcome, episode.best_score) == (
        "Name ten trees.",
        "best_effort",
        0.5,
    )
    assert {entry.category for entry in (episode, event)} == {"trees"}
    assert [origin.run for origin in episode.origins] == [result.id]
    assert not may_enter(episode)


async def test_a_fall_is_remembered(site: Installation) -> None:
    given = spec(improvement_threshold=None, regression_threshold=0.5)
    result = await site.run(given, {"replies": drafts(0.7, 0.5, 0.9)})
    learned = await ended(site, result.id)
    (lesson,) = await kept(site, "learning")
    assert isinstance(lesson, Learning)
    assert (lesson.sort, lesson.confidence) == ("anti_pattern", 0.7)
    assert may_enter(lesson)
    assert learned.output == "1 learning kept"
    assert learned.spend.model_calls == 0


async def test_a_model_is_asked_on_an_account_of_its_own(site: Installation) -> None:
    script = {"price": PRICE, "replies": [*HARD, *learner([LESSON])]}
    result = await site.run(spec([TONE]), script)
    learned = await ended(site, result.id)
    rows = await site.parts.stores.journal.rows(learned.id)
    assert [(row.role, row.root, row.run) for row in rows] == [("learner", learned.id, learned.id)]
    assert learned.spend.cost_usd == rows[0].cost_usd
    own = await site.parts.stores.journal.rows(result.id)
    assert result.spend.model_calls == len(own)
    assert "learner" not in {row.role for row in own}
    assert [(entry.text, entry.confidence) for entry in await kept(site, "learning")] == [
        ("Do not open with a list.", 0.6)
    ]


@pytest.mark.parametrize(
    ("replies", "note"),
    [
        pytest.param([], "the learner gave nothing of use", id="exhausted script"),
        pytest.param([{"text": "well"}] * 2, "the learner gave nothing of use", id="no structure"),
        pytest.param([[]], "the learner found nothing more", id="no lesson"),
        pytest.param([{"text": "well"}, [LESSON]], "1 learning kept", id="asked again"),
    ],
)
async def test_a_learner_that_fails_takes_nothing_away(
    site: Installation, replies: list[object], note: str
) -> None:
    script = {"replies": [*HARD, *learner(*replies)]}
    result = await site.run(spec([TONE]), script)
    learned = await ended(site, result.id)
    assert (result.outcome, learned.outcome) == ("accepted", "accepted")
    assert note in (learned.output or "")
    assert len(await kept(site, "episode")) == 1


async def test_switched_off_nothing_is_kept(site: Installation) -> None:
    given = {**spec(), "learn": False}
    result = await site.run(given, {"replies": drafts(0.9)})
    assert not result.learnings_started
    assert await kept(site) == []
