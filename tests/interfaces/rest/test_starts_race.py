"""Many starts at the same moment: one key is one run, and different ones are as many."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest
from installation import Installation
from rest import Rest, api_site

from perdure.domain.foundation.errors import NoReadyWorker
from perdure.domain.installation.access import IdempotencyRecord
from perdure.interfaces.rest.idempotent_start import Starts

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


def wanted(run: str, key: str | None = "k") -> IdempotencyRecord:
    return IdempotencyRecord(run=run, token="t", at=datetime.now(UTC), key=key, body_hash="h")


async def failing(starts: Starts, run: str) -> None:
    async with starts.joined(wanted(run)) as start:
        raise NoReadyWorker(f"Nobody is there for {start.claim.run}.")


async def test_a_start_that_fails_leaves_the_key_to_the_one_that_goes_on(
    unmanned: Installation,
) -> None:
    services = api_site(unmanned).services
    starts = Starts(services)
    async with starts.joined(wanted("first")) as goes_on:
        with pytest.raises(NoReadyWorker, match="for first"):
            await failing(starts, "second")
        async with starts.joined(wanted("third")) as later:
            assert later.claim.run == "first"
        assert goes_on.done() is False
    with pytest.raises(NoReadyWorker, match="for first"):
        await failing(starts, "fourth")
    async with starts.joined(wanted("fifth")) as free:
        assert free.claim.run == "fifth"


async def test_without_a_key_nobody_shares_a_start(unmanned: Installation) -> None:
    starts = Starts(api_site(unmanned).services)
    async with starts.joined(wanted("a", None)) as one, starts.joined(wanted("b", None)) as two:
        assert (one.claim.run, two.claim.run) == ("a", "b")
        assert (one.done(), two.done()) == (False, False)
