"""The step that reads workers' replies: results are compared, never what stands around them."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from pydantic import JsonValue
from temporalio.testing import ActivityEnvironment

from perdure.activities.worker_results import ReadWork
from perdure.adapters.checks.builtin_checks import similarity
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.verification.deliverables import Deliverables
from perdure.domain.delegation.messages import ReadWorkReport, ReadWorkRequest, WorkDone
from perdure.domain.delegation.spec import StallSettings

ALIKE_ABOVE = StallSettings().similarity


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores]:
    opened = await open_stores(tmp_path / "home")
    yield opened
    await opened.close()


def reply(result: JsonValue) -> str:
    """What a worker says around its result is the same each time, and long."""
    return json.dumps(
        {
            "result": result,
            "confidence": 0.9,
            "findings": [],
            "artifacts": [],
            "defects": [],
            "skills_created": [],
        }
    )


async def read(stores: Stores, *texts: str, before: str | None = None) -> ReadWorkReport:
    work = [
        WorkDone(worker=f"w{number}", output=await stores.blobs.put(text.encode()))
        for number, text in enumerate(texts, start=1)
    ]
    reading = ReadWork(blobs=stores.blobs, similarity=similarity, inspector=Deliverables())
    step = ReadWorkRequest(work=tuple(work), before=before)
    return await ActivityEnvironment().run(reading.read_work, step)


async def alike(stores: Stores, before: tuple[str, ...], now: tuple[str, ...]) -> bool:
    earlier = await read(stores, *before)
    assert earlier.output is not None
    found = await read(stores, *now, before=earlier.output.hash)
    assert found.similarity is not None
    return found.similarity > ALIKE_ABOVE


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        ("42", "Paris", False),
        (42, 43_000, False),
        (True, False, False),
        ({"city": "Paris"}, {"city": "Lima", "country": "Peru"}, False),
        (["a.md"], ["notes.txt", "b.csv"], False),
        ("yes", "no", False),
        ("Paris", "Paris", True),
        ({"city": "Paris"}, {"city": "Paris"}, True),
        ("word " * 100, "word " * 100 + "more", True),
    ],
    ids=[
        "a number and a town", "numbers", "truth", "objects", "lists", "one word",
        "equal texts", "equal objects", "a long text with a word more",
    ],
)  # fmt: skip
async def test_results_are_compared_without_what_stands_around_them(
    stores: Stores, before: JsonValue, now: JsonValue, same: bool
) -> None:
    assert await alike(stores, (reply(before),), (reply(now),)) is same


async def test_the_same_result_in_another_form_is_the_same(stores: Stores) -> None:
    plain, fenced = "The bottle is steel.", f"Here:\n```json\n{reply('The bottle is steel.')}\n```"
    assert await alike(stores, (plain,), (fenced,))


async def test_the_results_of_all_workers_count(stores: Stores) -> None:
    before = (reply("steel"), reply("cork"))
    assert await alike(stores, before, before)
    assert not await alike(stores, before, (reply("a wooden lid"), reply("42")))


async def test_an_honest_failure_is_no_output(stores: Stores) -> None:
    found = await read(stores, json.dumps({"result": "", "confidence": 0, "defects": ["no file"]}))
    assert (found.output, found.results) == (None, None)
    (work,) = found.work
    assert (work.usable, work.stated, work.confidence) == (False, 0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "doubtful"),
    [
        ("The bottle is of steel.", False),
        ("I looked for a todo and found none.", False),
        ('{"result": "steel"}', False),
        ('{"result": "", "artifacts": ["a.md"]}', False),
        ('{"result": "TODO: look again", "confidence": 0.9}', False),
        ("# Report\n\nTODO: write this", True),
        ("Dear [insert name here],", True),
        ("TBD", True),
        ('{"result": "steel", "defects": ["only a guess"]}', True),
        ('{"result": "", "findings": ["nobody knows"]}', True),
        ('{"result": "", "defects": ["no file"]}', True),
        ('{"result": {"text": "lorem ipsum dolor sit amet"}}', True),
        ("", True),
    ],
)
async def test_work_is_doubtful_by_its_own_flaws_where_nobody_says_how_sure_it_is(
    stores: Stores, text: str, doubtful: bool
) -> None:
    (work,) = (await read(stores, text)).work
    assert work.doubtful is doubtful
