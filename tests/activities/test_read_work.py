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


def answer(said: JsonValue, **more: JsonValue) -> str:
    """A structured result: all but what is said is the same each time."""
    question = "What is it that was asked for, in one word, and who says so?"
    return reply({"question": question, "answer": said, "sources": ["all pages"], **more})


LONG = "The town lies on the river and has two bridges, a market and a school. " * 3


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        ((answer("Paris"),), (answer("42"),), False),
        ((answer("42"),), (answer("Rome"),), False),
        ((answer({"town": "Paris"}),), (answer({"town": "Lima"}),), False),
        ((answer(["a", "b"]),), (answer(["x", "y"]),), False),
        ((answer(True),), (answer(False),), False),
        ((answer("Paris"),), (answer("Paris", note="It is the capital."),), False),
        ((answer("Paris"), answer("42")), (answer("Rome"), answer("17")), False),
        ((answer("Paris"), "It is steel."), (answer("Rome"), "Nobody knows who made it."), False),
        ((answer("Paris"),), ("It is a town in the north of the country.",), False),
        ((answer("Paris"),), (answer("Paris"),), True),
        ((answer("Paris"), answer("42")), (answer("42"), answer("Paris")), True),
        ((answer(["a", "b"]),), (answer(["b", "a"]),), True),
        ((answer(LONG),), (answer(f"{LONG}Yes."),), True),
        ((answer("Paris"), LONG), (answer("Paris"), f"{LONG}Yes."), True),
    ],
    ids=[
        "a town and a number", "a number and a town", "below a name", "lists", "truth",
        "a field more", "two workers", "beside prose", "prose instead", "equal",
        "in another order", "a list in another order", "a word more", "a word more of prose",
    ],
)  # fmt: skip
async def test_structured_results_are_compared_by_what_they_say(
    stores: Stores, before: tuple[str, ...], now: tuple[str, ...], same: bool
) -> None:
    assert await alike(stores, before, now) is same


async def test_long_structured_results_are_compared_by_their_beginning(stores: Stores) -> None:
    rows: list[JsonValue] = [f"{number} {LONG}" for number in range(500)]
    assert await alike(stores, (reply(rows),), (reply([*rows, "more"]),))


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
