"""The step `recall` over a real store: what is found, stored, marked, and forgotten."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest
from remembering import START, avoid, episode, learning, skill
from temporalio.testing import ActivityEnvironment

from perdure.activities.memory import Recall
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.memory.entries import Origin
from perdure.domain.memory.recall import RecallReport, RecallRequest

NOW = START + timedelta(weeks=8)
STORY = (
    avoid("a1", "Don't use a fixed window for rate limits", confidence=0.7, category="code"),
    episode("e1", "Add rate limiting to the login", category="code"),
    episode("e2", "Limit the rate of exports"),
    learning("l1", "Rate limits need a test per address", origins=()),
    learning("l2", "Cakes need eggs"),
    learning(
        "l3", "Rate limits by a run that failed", origins=(Origin(run="x", outcome="failed"),)
    ),
    learning("l4", "Rate limits of long ago", confidence=0.11, last_used=START),
    skill("limits", purpose="Add a rate limit", text="1. Count.\n2. Refuse.", deterministic=True),
    skill("mail", purpose="Write a letter", text="Dear ..."),
)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores]:
    opened = await open_stores(tmp_path / "home")
    for entry in STORY:
        await opened.memory.put(entry)
    yield opened
    await opened.close()


async def recall(stores: Stores, run: str = "refine-1", **changes: object) -> RecallReport:
    step = RecallRequest(
        run=run, goal="Add rate limiting to /api/login", category="code", token_limit=2_000, now=NOW
    )
    activity = Recall(memory=stores.memory, blobs=stores.blobs)
    return await ActivityEnvironment().run(activity.recall, step.model_copy(update=changes))


async def text_of(stores: Stores, report: RecallReport) -> tuple[str, str]:
    refs = (report.text, report.skills_text)
    text, skills = ["" if ref is None else await stores.blobs.get_text(ref.hash) for ref in refs]
    return text, skills


async def test_what_earlier_runs_left_for_a_task(stores: Stores) -> None:
    report = await recall(stores)
    assert report.summary == (
        "2 similar tasks, 1 anti-pattern: “Don't use a fixed window for rate limits”,"
        " 1 learning, 1 skill"
    )
    assert report.used == ("a1", "e1", "e2", "l1", "skill-limits")
    assert [(item.name, item.deterministic) for item in report.skills] == [("limits", True)]
    text, skills = await text_of(stores, report)
    assert text.splitlines()[1:3] == [
        "To avoid:",
        "- Don't use a fixed window for rate limits (confidence 0.70, from refine-a, accepted)",
    ]
    assert "failed" not in text
    assert skills.endswith("1. Count.\n2. Refuse.")


async def test_uses_are_marked_once_when_the_step_is_repeated(stores: Stores) -> None:
    first = await recall(stores)
    again = await recall(stores)
    assert first.used == again.used == (*sorted(first.used),)
    known = await stores.memory.get("a1")
    assert (known.uses, known.last_used) == (1, NOW)
    await recall(stores, "refine-2")
    assert (await stores.memory.get("a1")).uses == 2
    assert (await stores.memory.get("l2")).uses == 0


async def test_faded_entries_are_forgotten(stores: Stores) -> None:
    await recall(stores)
    assert "l4" not in {entry.id for entry in await stores.memory.list()}


async def test_a_small_allowance_leaves_out_and_says_so(stores: Stores) -> None:
    report = await recall(stores, token_limit=90)
    sizes = [ref.tokens.total for ref in (report.text, report.skills_text) if ref]
    assert 0 < sum(sizes) <= 90
    assert report.left_out_count == len(report.left_out) > 0
    assert f"{report.left_out_count} left out" in report.summary


async def test_nothing_fits_into_nothing(stores: Stores) -> None:
    report = await recall(stores, token_limit=0)
    assert (report.text, report.skills_text, report.used) == (None, None, ())


async def test_skills_that_were_asked_for(stores: Stores) -> None:
    report = await recall(stores, goal="x", category=None, skills=("MAIL", "nobody"))
    assert [(item.name, item.requested) for item in report.skills] == [("mail", True)]
    assert report.missing == ("nobody",)
    assert report.summary == "1 skill, no skill nobody"
    assert (await text_of(stores, report))[1].endswith("Dear ...")
