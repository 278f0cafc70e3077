"""What a stage said is kept as an artifact: each stage's own, and what it said last."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from perdure.activities.roles import ReadStage
from perdure.activities.support.run_storage import Frames
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.roles.messages import ReadStageRequest
from perdure.domain.run.activity_messages import Frame
from perdure.domain.tools.definitions import ToolGrant

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    stores = await open_stores(tmp_path, None)
    yield stores
    await stores.close()


async def said(stores: Stores, text: str, *, stage: str, attempt: int = 1) -> None:
    frame = Frame(
        run="loop",
        root="loop",
        kind="roles",
        goal="g",
        system="",
        tools=(),
        grant=ToolGrant(root="/", allowed=()),
        cards={},
        chains={},
    )
    request = ReadStageRequest(
        run="loop",
        frame=await stores.blobs.put(frame.model_dump_json().encode()),
        iteration=1,
        stage=stage,
        role="reviewer",
        attempt=attempt,
        text=(await stores.blobs.put_text(text)).hash,
    )
    reading = ReadStage(
        blobs=stores.blobs,
        artifacts=stores.artifacts,
        frames=Frames(stores.blobs),
        now=lambda: NOW,
    )
    await ActivityEnvironment().run(reading.read_stage, request)


async def kept(stores: Stores) -> list[tuple[str, str]]:
    found = await stores.artifacts.artifacts_of_run("loop")
    return [(one.stage, await stores.blobs.get_text(one.ref)) for one in found]


async def test_a_second_try_of_a_stage_is_not_taken_for_a_stage_of_that_name(
    stores: Stores,
) -> None:
    await said(stores, "Blocked.", stage="review")
    await said(stores, "Fine now.", stage="review", attempt=2)
    await said(stores, "Fine too.", stage="review-2")
    assert sorted(await kept(stores)) == [
        ("review", "Blocked."),
        ("review", "Fine now."),
        ("review-2", "Fine too."),
    ]


async def test_a_stage_that_is_done_again_after_a_reset_is_kept_as_it_ended(
    stores: Stores,
) -> None:
    for text in ("An older life.", "This life.", "This life."):
        await said(stores, text, stage="plan")
    assert await kept(stores) == [("plan", "This life.")]
