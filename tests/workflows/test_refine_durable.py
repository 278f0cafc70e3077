"""Books, trees and losses: spend equals the journal, trees follow the best, a lost judge heals."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from installation import Installation, installation
from refining import TONE, WORDS_CHECK, at_call, draft, drafts, judged, spec, verdict, written
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.llm.usage import Usage
from perdure.domain.run.messages import Stop
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import Timing

OPEN = {"improvement_threshold": None}
PRICE = {"input_per_million": 3, "output_per_million": 15}


async def booked(site: Installation, run: str) -> tuple[Usage, Decimal, int]:
    """Usage, cost and calls as the journal has them."""
    rows = await site.parts.stores.journal.rows(run)
    cost = sum((row.cost_usd or Decimal(0) for row in rows), Decimal(0))
    return sum((row.usage for row in rows), Usage()), cost, len(rows)


def told(result: RunResult) -> tuple[Usage, Decimal | None, int]:
    """Usage, cost and calls as the run tells them; those of its records come to the same."""
    spend, records = result.spend, result.iterations
    assert sum((record.usage for record in records), Usage()) == spend.usage
    assert sum(record.model_calls for record in records) == spend.model_calls
    return spend.usage, spend.cost_usd, spend.model_calls


@pytest.mark.long
@pytest.mark.parametrize(
    ("replies", "budget"),
    [
        pytest.param([*written("a", "b"), *judged(verdict(0.5), verdict(0.9))], {}, id="accepted"),
        pytest.param([*written("a"), *judged("?", "?")], {}, id="failed evaluator"),
        pytest.param(
            [*written("a"), {"error": {"status": 529, "retry_after": 0.1}}, *judged(verdict(0.9))],
            {},
            id="a retry",
        ),
        pytest.param(
            [*written("a", "b"), *judged(verdict(0.5))], {"model_calls": 3}, id="out of budget"
        ),
    ],
)
async def test_spend_equals_the_journal(
    site: Installation, replies: Sequence[object], budget: dict[str, object]
) -> None:
    usage = {"input_tokens": 100, "output_tokens": 20, "cache_read_tokens": 7}
    script = {"price": PRICE, "defaults": {"usage": usage}, "replies": replies}
    result = await site.run({**spec([TONE]), "budget": budget}, script)
    assert told(result) == await booked(site, result.id)


@pytest.mark.long
async def test_a_judge_lost_with_its_worker_is_asked_again(bare: Installation) -> None:
    slow = [{**judged(verdict(0.9))[0], "delay_s": 5}]
    replies = [*written(draft(0.9)), *slow]
    async with bare.worker_process() as first:
        script = {"price": PRICE, "replies": replies}
        run = await bare.start(spec([WORDS_CHECK, TONE]), script)

        async def judging() -> bool:
            rows = await bare.parts.stores.journal.rows(run)
            begun = [row.role for row in rows] == ["executor", "evaluator"]
            return begun and await bare.replies_taken(run) == 2

        await eventually(judging)
        await first.kill()
        await first.start()
        result = await bare.gateway.result(run)
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    assert result.iterations[0].dimensions["tone"].score == 0.9
    assert result.spend.unconfirmed["tokens"] != 0
    rows = await bare.parts.stores.journal.rows(run)
    assert [row.state for row in rows] == ["answered", "lost", "answered"]


def writing(path: str, content: str) -> dict[str, object]:
    call = {
        "name": "fs.write",
        "arguments": {"path": path, "content": content, "expected_hash": "absent"},
    }
    return {"tool_calls": [call]}


WRITES = {"tools": {"access": "full", "allow": ["fs.write"]}}


@pytest.mark.long
async def test_a_writing_run_ends_on_the_tree_of_its_best_iteration(site: Installation) -> None:
    replies = [
        writing("one.txt", "first"),
        {"text": draft(0.7, "a")},
        writing("two.txt", "second"),
        {"text": draft(0.4, "b")},
    ]
    result = await site.run({**spec(**OPEN), **WRITES}, {"replies": replies})
    assert (result.outcome, result.output) == ("regressed", draft(0.7, "a"))
    first, second = result.iterations
    assert first.tree_ref is not None
    assert first.tree_ref != second.tree_ref
    kept = {artifact.kind: artifact.ref for artifact in result.artifacts}
    assert kept["tree"] == first.tree_ref
    patch = await site.parts.stores.blobs.get_text(kept["patch"])
    assert "one.txt" in patch
    assert "two.txt" not in patch


@pytest.mark.long
async def test_a_stop_at_once_still_delivers_the_best_tree(site: Installation) -> None:
    replies = [
        writing("one.txt", "first"),
        {"text": draft(0.7, "a")},
        writing("two.txt", "second"),
        {"text": draft(0.75, "b"), "delay_s": 60},
    ]
    run = await site.start({**spec(**OPEN), **WRITES}, {"replies": replies})

    async def written_twice() -> bool:
        status = await site.status(run)
        return status.iteration == 2 and status.budget.tool_calls == 2 and status.step is not None

    await eventually(written_twice)
    await site.gateway.verb(run, Stop(mode="now"))
    result = await site.gateway.result(run)
    assert result.output == draft(0.7, "a")
    kept = {artifact.kind: artifact.ref for artifact in result.artifacts}
    assert "two.txt" not in await site.parts.stores.blobs.get_text(kept["patch"])


@pytest.mark.long
async def test_records_reach_the_store_as_the_run_goes(site: Installation) -> None:
    replies = [*drafts(0.3, 0.4), {"text": draft(0.5, "c"), "delay_s": 30}]
    run = await site.start(spec(**OPEN), {"replies": replies})
    await at_call(site, run, "executor", 3)

    async def stored() -> bool:
        return len(await site.records(run)) == 2

    await eventually(stored)
    await site.gateway.verb(run, Stop(mode="now"))
    await site.gateway.result(run)
    records = await site.records(run)
    assert [record.score for record in records] == [0.3, 0.4, None]
    assert [record.phase for record in records][:2] == ["deciding", "deciding"]
    assert records[-1].phase != "deciding", "it was cut short before"


async def test_the_record_of_an_iteration_has_what_the_contract_names(site: Installation) -> None:
    replies = [*written(draft(0.9)), *judged(verdict(0.9))]
    result = await site.run(spec([WORDS_CHECK, TONE]), {"replies": replies, "price": PRICE})
    record = result.iterations[0]
    assert (record.index, record.decision, record.evaluation) == (1, "accept", "full")
    assert (record.break_reason, record.stop_reason) == ("quality", "end_turn")
    assert set(record.dimensions) == {"words", "tone"}
    assert record.dimensions["words"].source == "check"
    assert record.output_ref == result.output_ref
    assert record.cost_usd == result.spend.cost_usd
    assert record.started_at is not None
    assert record.transcript is not None
    assert record.findings[0]["severity"] == "important"
    assert result.open_findings == record.findings


ROLLING = Timing(roll_events=12)


@pytest.mark.long
async def test_a_run_that_continues_as_new_loses_nothing(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    slow = [{**entry, "delay_s": 0} for entry in judged(*(verdict(n / 10) for n in range(3, 7)))]
    replies = [*written(*(draft(n / 10, f"d{n}") for n in range(3, 7))), *slow]
    settings = {"max_iterations": 4, **OPEN}
    async with installation(tmp_path / "home", address, timing=ROLLING) as site, site.worker():
        result = await site.run(spec([WORDS_CHECK, TONE], **settings), {"replies": replies})
        assert told(result) == await booked(site, result.id)
        described = await site.handle(result.id).describe()
        first = described.raw_description.workflow_execution_info.first_run_id
    assert first != described.run_id
    assert [record.score for record in result.iterations] == [0.3, 0.4, 0.5, 0.6]
    assert (result.outcome, result.output) == ("best_effort", draft(0.6, "d6"))
