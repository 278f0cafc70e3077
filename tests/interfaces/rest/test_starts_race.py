"""Many starts at the same moment: one key is one run, and different ones are as many."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rest import Rest

from perdure.adapters.stores.access import SqlAccess
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.records import SqlRecords
from perdure.domain.foundation.errors import NoReadyWorker
from perdure.domain.installation.access import IdempotencyRecord
from perdure.domain.run.status import StoredRun
from perdure.interfaces.rest.idempotent_start import Start, Starts
from perdure.interfaces.services import Services

LOOPS = "/api/v1/loops"
TASK = {"kind": "agent", "goal": "say something", "learn": False, "recall": False}
MANY = 12


async def post(rest: Rest, key: str, **more: object) -> tuple[int, str]:
    answer = await rest.client.post(LOOPS, json=TASK | more, headers={"idempotency-key": key})
    return answer.status_code, answer.json().get("id", answer.text)


@pytest.mark.long
async def test_one_key_is_one_run_and_one_of_all_is_told_so(rest: Rest) -> None:
    answers = await asyncio.gather(*(post(rest, "same") for _ in range(MANY)))
    assert Counter(code for code, _ in answers) == {201: 1, 200: MANY - 1}
    assert len({run for _, run in answers}) == 1
    result = await rest.ended(answers[0][1])
    assert result["spend"]["model_calls"] == 1  # type: ignore[index]
    assert await post(rest, "same") == (200, answers[0][1])


@pytest.mark.long
async def test_different_keys_are_as_many_runs_and_none_is_refused(rest: Rest) -> None:
    answers = await asyncio.gather(*(post(rest, f"key {n}") for n in range(MANY)))
    assert Counter(code for code, _ in answers) == {201: MANY}
    runs = {run for _, run in answers}
    assert len(runs) == MANY
    ends = await asyncio.gather(*(rest.ended(run) for run in runs))
    assert {end["outcome"] for end in ends} == {"accepted"}


async def test_another_body_is_refused_and_the_key_stays_with_its_run(rest: Rest) -> None:
    _, run = await post(rest, "mine")
    await rest.ended(run)
    code, told = await post(rest, "mine", goal="another")
    assert code == 409, told
    assert await post(rest, "mine") == (200, run)


def wanted(run: str, key: str | None = "k", body: str = "h") -> IdempotencyRecord:
    return IdempotencyRecord(run=run, token="t", at=datetime.now(UTC), key=key, body_hash=body)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Services]:
    """All that a start in progress asks of the services: a store, and no run in it."""
    database = await Database.open(f"sqlite+aiosqlite:///{tmp_path}/store.sqlite")
    services = SimpleNamespace(access=SqlAccess(database), records=SqlRecords(database))
    yield cast(Services, services)
    await database.close()


async def failing(starts: Starts, run: str) -> None:
    async with starts.join_start(wanted(run)) as start:
        raise NoReadyWorker(f"Nobody is there for {start.claim.run}.")


async def failed(start: AbstractAsyncContextManager[Start]) -> None:
    away = NoReadyWorker("Nobody is there.")
    assert not await start.__aexit__(NoReadyWorker, away, None)


async def test_a_start_that_fails_leaves_the_key_to_the_one_that_goes_on(store: Services) -> None:
    starts = Starts(store)
    async with starts.join_start(wanted("first")) as goes_on:
        with pytest.raises(NoReadyWorker, match="for first"):
            await failing(starts, "second")
        async with starts.join_start(wanted("third")) as later:
            assert later.claim.run == "first"
        assert goes_on.mark_started() is False


@pytest.mark.parametrize("body", ["h", "another"])
async def test_the_last_one_of_a_start_that_fails_frees_the_key(body: str, store: Services) -> None:
    starts = Starts(store)
    first, second = (
        starts.join_start(wanted("first")),
        starts.join_start(wanted("second", body=body)),
    )
    for one in (first, second):
        assert (await one.__aenter__()).claim.run == "first"
    for one in (first, second):
        await failed(one)
    async with starts.join_start(wanted("third", body="a third")) as free:
        assert free.claim.run == "third"


async def test_a_process_does_not_free_a_key_that_another_one_claimed(store: Services) -> None:
    async with Starts(store).join_start(wanted("first")) as goes_on:
        with pytest.raises(NoReadyWorker, match="for first"):
            await failing(Starts(store), "second")
        assert goes_on.mark_started() is False
    async with Starts(store).join_start(wanted("third")) as repeat:
        assert repeat.claim.run == "first"


async def test_a_process_that_started_the_run_of_a_freed_claim_claims_it_again(
    store: Services,
) -> None:
    first = Starts(store).join_start(wanted("first"))
    await first.__aenter__()
    async with Starts(store).join_start(wanted("second")) as goes_on:
        await failed(first)
        assert goes_on.mark_started() is False
    async with Starts(store).join_start(wanted("third")) as repeat:
        assert repeat.claim.run == "first"


async def test_a_repeat_starts_the_run_that_a_dead_process_claimed(store: Services) -> None:
    await store.access.claim_start(wanted("first"))
    with pytest.raises(NoReadyWorker, match="for first"):
        await failing(Starts(store), "second")
    async with Starts(store).join_start(wanted("third")) as repeat:
        assert (repeat.claim.run, repeat.mark_started()) == ("first", False)


async def test_without_a_key_nobody_shares_a_start(store: Services) -> None:
    starts = Starts(store)
    async with (
        starts.join_start(wanted("a", None)) as one,
        starts.join_start(wanted("b", None)) as two,
    ):
        assert (one.claim.run, two.claim.run) == ("a", "b")
        assert (one.mark_started(), two.mark_started()) == (False, False)


async def test_a_start_that_takes_over_another_processs_row_keeps_its_key(store: Services) -> None:
    row = StoredRun(
        id="first", kind="agent", goal="g", label=None, lifecycle="running", outcome=None,
        started_at=datetime.now(UTC),
    )  # fmt: skip
    failing_elsewhere = Starts(store).join_start(wanted("first"))
    await failing_elsewhere.__aenter__()
    await store.records.put_run(row)
    here = Starts(store)
    async with here.join_start(wanted("second")) as goes_on:
        ended = {"lifecycle": "failed", "ended_at": datetime.now(UTC)}
        await store.records.put_run(row.model_copy(update=ended))
        await failed(failing_elsewhere)
        await store.records.put_run(row)
        assert goes_on.mark_started() is True
    started = await store.access.started_by("first")
    assert started is not None
    async with here.join_start(wanted("third")) as later:
        assert later.claim.run == "first"
