"""The step that keeps what a stage said, and reads it."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from perdure.activities.roles import ReadStage
from perdure.activities.support.run_storage import Frames
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.roles.messages import ReadStageReport, ReadStageRequest
from perdure.domain.run.activity_messages import Frame
from perdure.domain.tools.definitions import ToolGrant

NOW = datetime(2026, 1, 5, tzinfo=UTC)
ASKED = "NEEDS_CONTEXT: which of the two formats?"
FINAL = "The parser reads both formats."


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores]:
    opened = await open_stores(tmp_path / "home")
    yield opened
    await opened.close()


async def read(
    stores: Stores, text: str, *, stage: str = "coder", attempt: int = 1, measure: bool = False
) -> ReadStageReport:
    frame = Frame(
        run="r",
        root="r",
        kind="roles",
        goal="Write a parser.",
        system="",
        tools=(),
        grant=ToolGrant(root="/", writable=False, level="minimal", allowed=()),
        cards={},
        chains={},
    )
    step = ReadStageRequest(
        run="r",
        frame=await stores.blobs.put(frame.model_dump_json().encode()),
        iteration=1,
        stage=stage,
        role="coder",
        attempt=attempt,
        text=await stores.blobs.put(text.encode()),
        measure=measure,
    )
    reading = ReadStage(
        blobs=stores.blobs,
        artifacts=stores.artifacts,
        frames=Frames(stores.blobs),
        now=lambda: NOW,
    )
    return await ActivityEnvironment().run(reading.read_stage, step)


async def kept(stores: Stores) -> list[tuple[str, str]]:
    found = await stores.artifacts.artifacts_of_run("r")
    return [(item.stage, await stores.blobs.get_text(item.ref)) for item in found]


async def test_a_stage_that_asked_is_kept_with_its_answer(stores: Stores) -> None:
    asked = await read(stores, ASKED)
    assert asked.question is not None
    await read(stores, FINAL)
    assert await kept(stores) == [("coder", FINAL)]


async def test_the_text_of_a_child_run_is_kept_whatever_it_begins_with(stores: Stores) -> None:
    await read(stores, ASKED, measure=True)
    assert await kept(stores) == [("coder", ASKED)]


async def test_stages_whose_names_look_like_attempts_are_kept_side_by_side(stores: Stores) -> None:
    await read(stores, "The second try.", attempt=2)
    await read(stores, FINAL, stage="coder-2")
    assert {*await kept(stores)} == {("coder", "The second try."), ("coder-2", FINAL)}


async def test_a_repeated_step_keeps_its_text_once(stores: Stores) -> None:
    await read(stores, FINAL)
    await read(stores, FINAL)
    assert await kept(stores) == [("coder", FINAL)]


async def test_a_stage_that_is_done_again_after_a_reset_is_kept_as_it_ended(
    stores: Stores,
) -> None:
    await read(stores, "What an older execution said.")
    await read(stores, FINAL)
    assert await kept(stores) == [("coder", FINAL)]
