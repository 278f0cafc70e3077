"""Learning after a run: a child that outlives it, with its own books, adding nothing twice."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from installation import Installation, installation
from refining import TONE, drafts, judged, spec, verdict, written
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment
from waiting import eventually

from perdure.activities.memory import Review
from perdure.activities.support.run_storage import Frames
from perdure.domain.foundation.names import learn_run_id
from perdure.domain.memory.entries import Episode, Event, Learning, MemoryEntry, may_enter
from perdure.domain.memory.learn_messages import ReviewRequest
from perdure.domain.run.messages import Stop
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import Timing

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


def task(*rubric: object, **refine: object) -> dict[str, object]:
    """A refine run that is learned from."""
    given = spec(list(rubric), **refine) if rubric else spec(**refine)
    return {**given, "learn": True}


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
    given = {**task(improvement_threshold=None), "category": "trees"}
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
    given = task(improvement_threshold=None, regression_threshold=0.5)
    result = await site.run(given, {"replies": drafts(0.7, 0.5, 0.9)})
    learned = await ended(site, result.id)
    (lesson,) = await kept(site, "learning")
    assert isinstance(lesson, Learning)
    assert (lesson.sort, lesson.confidence) == ("anti_pattern", 0.7)
    assert may_enter(lesson)
    assert learned.output == "1 learning kept"
    assert learned.spend.model_calls == 0
    told = {event.type: event.data for event in (await site.status(learned.id)).events}
    assert told["learned"] == {"source": result.id, "kept": 1, "reinforced": 0, "heard": 0}


async def test_a_model_is_asked_on_an_account_of_its_own(site: Installation) -> None:
    script = {"price": PRICE, "replies": [*HARD, *learner([LESSON])]}
    result = await site.run(task(TONE), script)
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
    result = await site.run(task(TONE), script)
    learned = await ended(site, result.id)
    assert (result.outcome, learned.outcome) == ("accepted", "accepted")
    assert note in (learned.output or "")
    assert len(await kept(site, "episode")) == 1


async def test_switched_off_nothing_is_kept(site: Installation) -> None:
    result = await site.run(spec(), {"replies": drafts(0.9)})
    assert not result.learnings_started
    assert await kept(site) == []


@pytest.mark.long
async def test_it_outlives_the_run_that_started_it(site: Installation) -> None:
    slow = [{**learner([LESSON])[0], "delay_s": 2}]
    run = await site.start(task(TONE), {"replies": [*HARD, *slow]})
    result = await site.gateway.result(run)
    child = await site.status(learn_run_id(run))
    assert (result.outcome, child.lifecycle, child.kind) == ("accepted", "running", "learn")
    assert (await ended(site, run)).output == "1 learning kept"
    assert run in {row.id for row in (await site.gateway.list()).runs}
    assert await site.gateway.resolve(run[:-2]) == run


@pytest.mark.long
async def test_a_stop_of_all_runs_reaches_it_and_keeps_what_the_rules_found(
    site: Installation,
) -> None:
    slow = [{**learner([LESSON])[0], "delay_s": 60}]
    run = await site.start(task(TONE), {"replies": [*HARD, *slow]})
    await site.gateway.result(run)

    async def asking() -> bool:
        return bool((await site.status(learn_run_id(run))).step)

    await eventually(asking)
    await site.gateway.verb(learn_run_id(run), Stop(mode="now"))
    assert (await ended(site, run)).outcome == "stopped"
    assert [entry.kind for entry in await kept(site, "episode", "learning")] == ["episode"]


@pytest.mark.long
async def test_a_worker_lost_in_the_middle_doubles_nothing(bare: Installation) -> None:
    slow = [{**learner([LESSON])[0], "delay_s": 5}]
    script = {"price": PRICE, "replies": [*HARD, *slow]}
    async with bare.worker_process() as worker:
        run = await bare.start(task(TONE), script)
        child = learn_run_id(run)

        async def asking() -> bool:
            begun = bool(await bare.parts.stores.journal.rows(child))
            return begun and await bare.replies_taken(child) == 1

        await eventually(asking)
        await worker.kill()
        await worker.start()
        learned = await ended(bare, run)
    assert learned.output == "1 learning kept"
    states = [row.state for row in await bare.parts.stores.journal.rows(child)]
    assert states == ["lost", "answered"]
    assert learned.spend.unconfirmed["tokens"] != 0
    assert [len(await kept(bare, kind)) for kind in ("learning", "episode", "event")] == [1, 1, 1]


async def test_a_review_that_is_repeated_says_and_keeps_the_same(site: Installation) -> None:
    given = task(improvement_threshold=None, regression_threshold=0.5)
    result = await site.run(given, {"replies": drafts(0.7, 0.5, 0.9)})
    await ended(site, result.id)
    before = await kept(site)
    history = await site.handle(learn_run_id(result.id)).fetch_history()
    (asked,) = [
        event.activity_task_scheduled_event_attributes.input.payloads
        for event in history.events
        if event.activity_task_scheduled_event_attributes.activity_type.name == "review"
    ]
    (request,) = await site.client.data_converter.decode(asked, [ReviewRequest])
    stores = site.parts.stores
    again = Review(
        records=stores.records,
        memory=stores.memory,
        blobs=stores.blobs,
        frames=Frames(stores.blobs),
    )
    report = await ActivityEnvironment().run(again.review, request)
    assert (report.kept, report.reinforced) == (1, 0)
    assert await kept(site) == before


@pytest.mark.long
async def test_it_continues_as_new_between_rules_and_model(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    timing = Timing(roll_events=8)
    async with installation(tmp_path / "home", address, timing=timing) as site, site.worker():
        run = await site.start(task(TONE), {"replies": [*HARD, *learner([LESSON])]})
        await site.gateway.result(run)
        learned = await ended(site, run)
        assert learned.output == "1 learning kept"
        first = (await site.history(learned.id))[0]["workflowExecutionStartedEventAttributes"]
        assert first["continuedExecutionRunId"]  # type: ignore[index]
        assert [len(await kept(site, kind)) for kind in ("learning", "episode")] == [1, 1]


async def test_costs_show_it_beside_the_run(site: Installation) -> None:
    script = {"price": PRICE, "replies": [*HARD, *learner([LESSON])]}
    result = await site.run(task(TONE), script)
    learned = await ended(site, result.id)
    for asked in (result.id, None):
        report = await site.gateway.costs(asked)
        assert report.total.cost_usd == result.spend.cost_usd
        assert report.learning is not None
        assert report.learning.cost_usd == learned.spend.cost_usd


async def test_what_an_accepted_run_taught_is_told_to_the_next_and_hears_of_it(
    site: Installation,
) -> None:
    script = {"replies": [*HARD, *learner([LESSON])]}
    first = await site.run(task(TONE), script)
    await ended(site, first.id)
    second = await site.run(
        {**task(TONE), "recall": True, "goal": "Name ten trees, no list."},
        {"replies": [*written("x"), *judged(verdict(0.9))]},
    )
    learned = await ended(site, second.id)
    (lesson,) = await kept(site, "learning")
    assert (lesson.uses, lesson.successes) == (1, 1)
    assert learned.outcome == "accepted"
