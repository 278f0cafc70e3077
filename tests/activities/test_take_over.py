"""Taking over from older executions: a repeat says the same."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from perdure.activities import take_over
from perdure.activities.take_over import TakeOver
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.run.take_over import TakeOverRequest
from perdure.domain.turns.records import IterationRecord


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    stores = await open_stores(tmp_path, None)
    yield stores
    await stores.close()


async def test_an_answer_that_was_lost_is_given_again(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_children(run: str, current: str) -> dict[str, str]:
        return {}

    monkeypatch.setattr(take_over, "children_started", no_children)
    for index in (1, 2, 3):
        record = IterationRecord(index=index, tool_calls=10)
        await stores.records.put_record("r", index, record.model_dump_json())
    taking = TakeOver(journal=stores.journal, records=stores.records)
    step = TakeOverRequest(run="r", root="r", before="old", records=1)
    first = await ActivityEnvironment().run(taking.take_over, step)
    again = await ActivityEnvironment().run(taking.take_over, step)
    assert (first.tool_calls, again) == (20, first)
    # A life that begins after this one took over has counted these calls, another has not.
    step = step.model_copy(update={"before": "newer", "records": 0})
    counted = step.model_copy(update={"dropped_calls": 20})
    told = [await ActivityEnvironment().run(taking.take_over, one) for one in (step, counted)]
    assert [one.tool_calls for one in told] == [30, 10]
