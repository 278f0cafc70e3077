"""How what goes by the clock went, as monitoring asks it."""

from datetime import UTC, datetime, timedelta

import pytest
from installation import Installation
from waiting import eventually

from perdure.domain.run import metrics
from perdure.gateway import clock_load
from perdure.gateway.clock_load import overdue_s
from perdure.gateway.types import UpkeepOutcome, UpkeepSchedule
from perdure.interfaces.installation_figures import waiting

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("stands", "went", "overdue"),
    [
        ({}, {}, 0),
        ({"created_at": NOW - 3 * DAY, "paused": True}, {}, 86_400),
        ({"created_at": NOW - 9 * DAY, "last_at": NOW - 3 * DAY}, {}, 86_400),
        ({"last_at": NOW}, {"succeeded_at": NOW - DAY}, 0),
        ({"last_at": NOW}, {"succeeded_at": NOW - 2 * DAY}, 0),
        ({"last_at": NOW}, {"succeeded_at": NOW - 3 * DAY, "failed": "w"}, 86_400),
        ({"last_at": NOW}, {"succeeded_at": NOW - 3 * DAY, "open": True}, 0),
        ({"last_at": NOW}, {"succeeded_at": NOW - 3 * DAY, "open": True, "failed": "w"}, 86_400),
        ({"last_at": NOW - 3 * DAY}, {"open": True}, 0),
        ({"last_at": NOW - 3 * DAY}, {"open": True, "unfetched": True}, 86_400),
        ({"last_at": NOW - 3 * DAY, "paused": True}, {"succeeded_at": NOW - 3 * DAY}, 86_400),
    ],
)
def test_a_collection_is_overdue_after_two_intervals(
    stands: dict[str, object], went: dict[str, object], overdue: float
) -> None:
    schedule = UpkeepSchedule.model_validate({"id": "s", "every_s": 86_400, **stands})
    assert overdue_s(schedule, UpkeepOutcome.model_validate(went), NOW) == overdue


async def test_a_collection_that_no_worker_takes_or_that_fails_is_told(
    bare: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_load, "KNOWN_FOR_S", 0.0)
    load = await bare.gateway.load()
    assert metrics.COLLECTION_FAILING in waiting(load)
    assert waiting(load)[metrics.COLLECTION_FAILING] == {}
    collections = bare.gateway.upkeep("collection")
    stands = await collections.schedule_every(timedelta(days=1))
    try:
        assert waiting(await bare.gateway.load())[metrics.COLLECTION_FAILING] == {(): 0.0}
        await bare.client.get_schedule_handle(stands.id).trigger()

        async def begun() -> bool:
            return (await collections.outcome()).open

        await eventually(begun)

        async def unfetched() -> bool:
            return (await collections.outcome()).unfetched

        await eventually(unfetched)
        recent = (await bare.client.get_schedule_handle(stands.id).describe()).info.recent_actions
        await bare.client.get_workflow_handle(recent[-1].action.workflow_id).terminate()  # type: ignore[union-attr]

        async def told() -> bool:
            return waiting(await bare.gateway.load())[metrics.COLLECTION_FAILING] == {(): 1.0}

        await eventually(told)
    finally:
        await collections.delete_schedule()
