"""Retries on a real server: the same id, nothing done twice, every token on one account."""

import asyncio

import pytest
from agent_runs import Reply, books_agree, conversation, echo, script, task
from installation import Installation
from refining import draft, drafts, prompt_of, spec
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.run.messages import Amend, Retry
from perdure.domain.run.result import RunResult
from perdure.gateway.types import RunFilter

BROKEN: Reply = {"error": {"status": 401, "message": "no such key"}}


def failing(*replies: Reply) -> dict[str, object]:
    return script(*replies, price={"input_per_million": 3.0, "output_per_million": 15.0})


async def retried(site: Installation, run: str, note: str = "") -> RunResult:
    await site.gateway.verb(run, Retry(by="t", note=note, request_id=f"retry {note}"))
    return await site.gateway.result(run)


@pytest.mark.long
async def test_an_agent_run_goes_on_where_its_model_failed(site: Installation) -> None:
    run = await site.start(task(), failing(echo("one"), BROKEN, {"text": "answer"}))
    failed = await site.gateway.result(run)
    assert (failed.outcome, failed.reason) == ("failed", "model_error")

    result = await retried(site, run, "mind the gap")
    assert (result.outcome, result.output) == ("accepted", "answer")
    assert (result.id, result.iteration_count, result.tools_used) == (run, 3, {"probe.echo": 1})
    assert result.spend.tokens > failed.spend.tokens
    await books_agree(site, result)
    said = [message.text for message in await conversation(site, result.transcript)]
    assert sum("mind the gap" in text for text in said) == 1
    status = await site.status(run)
    assert (status.lifecycle, status.outcome) == ("completed", "accepted")

    async def listed_once() -> bool:
        page = await site.gateway.list(RunFilter(limit=500))
        rows = [row for row in page.runs if row.id == run]
        return [row.lifecycle for row in rows] == ["completed"]

    await eventually(listed_once)
    failed_ones = await site.gateway.list(RunFilter(status="failed", limit=500))
    assert run not in [row.id for row in failed_ones.runs]


@pytest.mark.long
async def test_a_refine_run_is_retried_twice_with_one_account(site: Installation) -> None:
    replies = [*drafts(0.3), BROKEN, BROKEN, BROKEN, BROKEN, {"text": draft(1.0, "done")}]
    run = await site.start(spec(max_iterations=4), failing(*replies))
    first = await site.gateway.result(run)
    assert (first.outcome, first.iteration_count) == ("failed", 3)

    second = await retried(site, run, "first note")
    assert (second.outcome, second.iteration_count) == ("failed", 5)
    await books_agree(site, second)
    third = await retried(site, run, "second note")
    assert (third.outcome, third.reason) == ("accepted", "quality_met")
    assert [item.index for item in third.iterations] == [1, 2, 3, 4, 5, 6]
    await books_agree(site, third)
    records = await site.records(run)
    last = await prompt_of(site, records[-1].transcript)
    told = "\n".join(text for _, text in last)
    assert "second note" in told
    assert "first note" not in told


@pytest.mark.long
async def test_a_run_that_failed_at_once_starts_anew(site: Installation) -> None:
    run = await site.start(spec(), failing(BROKEN, {"text": draft(1.0, "done")}))
    failed = await site.gateway.result(run)
    assert (failed.outcome, failed.iteration_count) == ("failed", 1)
    result = await retried(site, run)
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    await books_agree(site, result)


@pytest.mark.long
async def test_a_repeated_request_has_one_effect(site: Installation) -> None:
    run = await site.start(spec(max_iterations=1), failing(BROKEN, BROKEN, BROKEN))
    await site.gateway.result(run)
    message = Retry(by="t", request_id="once")
    told = await asyncio.gather(
        *(site.gateway.verb(run, message) for _ in range(4)), return_exceptions=True
    )
    taken = [receipt for receipt in told if not isinstance(receipt, BaseException)]
    refused = [error for error in told if isinstance(error, BaseException)]
    assert taken
    assert all(isinstance(error, NotAllowed) for error in refused), refused

    async def failed_again() -> bool:
        row = await site.parts.stores.records.run(run)
        return row is not None and row.ended_at is not None

    await eventually(failed_again)
    late = await site.gateway.verb(run, message)
    assert late.note == "had its effect"
    rows = await site.parts.stores.journal.rows(run)
    assert len({row.key.partition("/")[0] for row in rows}) == 2


@pytest.mark.long
async def test_only_failed_runs_are_retried(site: Installation) -> None:
    run = await site.start(spec(max_iterations=1), {"replies": drafts(0.3)})
    await site.gateway.result(run)
    with pytest.raises(NotAllowed, match=r"is completed \(best_effort\).*perdure fork"):
        await site.gateway.verb(run, Retry(by="t"))
    slow = await site.start(task(), script({"text": "late", "delay_s": 30}))
    with pytest.raises(NotAllowed, match=r"the run is running"):
        await site.gateway.verb(slow, Retry(by="t"))
    await site.handle(slow).terminate()
    with pytest.raises(NotFound):
        await site.gateway.verb("no-such-run", Retry(by="t"))


@pytest.mark.long
async def test_a_run_whose_execution_broke_goes_on_from_its_newest_state(
    site: Installation,
) -> None:
    replies = [*drafts(0.3), {"text": draft(0.6, "late"), "delay_s": 60}, {"text": draft(1.0, "x")}]
    run = await site.start(
        {**spec(max_iterations=5), "budget": {"wall_time": 3600}}, failing(*replies)
    )

    async def second() -> bool:
        return len(await site.records(run)) == 1

    await eventually(second)
    await site.gateway.verb(run, Amend(by="t", budget={"wall_time": 7200}))
    await site.handle(run).terminate(reason="test")
    row = await site.parts.stores.records.run(run)
    assert row is not None
    # Terminated by a person is stopped; one that broke stands as failed.
    broken = row.model_copy(update={"lifecycle": "failed", "ended_at": row.started_at})
    await site.parts.stores.records.put_run(broken)
    result = await retried(site, run)
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert [item.index for item in result.iterations] == [1, 2]
    assert (await site.status(run)).budget.limits.wall_time == 7200
    rows = await site.parts.stores.journal.rows(run)
    assert [row.state for row in rows] == ["answered", "lost", "answered"]
    assert result.spend.tokens == sum(row.usage.counted_tokens() for row in rows)
