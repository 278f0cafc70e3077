import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    FailureError,
    TerminatedError,
    TimeoutError,
)

from perdure.domain.agent.state import AgentInput
from perdure.domain.budget.journal import AttemptRow
from perdure.domain.foundation.errors import NotAllowed, NotFound, StoreAway
from perdure.domain.llm.usage import Usage
from perdure.domain.run.messages import Pause, Stop
from perdure.domain.run.result import RunResult
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.gateway import Gateway
from perdure.gateway.stored_status import torn_result
from perdure.gateway.temporal_gateway import EndedWithoutResult, TemporalGateway
from perdure.gateway.types import Waits
from tests.gateway.memory_stores import MemoryJournal, MemoryRecords
from tests.gateway.tiny import Site, row, spec

ENDED = datetime(2026, 1, 2, tzinfo=UTC)


def result(run: str, **more: object) -> RunResult:
    facts: dict[str, object] = {
        "id": run,
        "kind": "agent",
        "outcome": "accepted",
        "reason": "text_answer",
        "explanation": "Done.",
        "output": "a haiku",
    }
    return RunResult.model_validate(facts | more)


async def test_a_running_run_is_asked_and_linked(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    status = await site.gateway.status(run)

    assert (status.source, status.phase, status.budget.tokens) == ("run", "executing", 7)
    assert status.links == {"temporal": f"http://ui:1/namespaces/default/workflows/{run}"}


@pytest.mark.long
async def test_without_a_worker_the_store_and_the_server_answer_and_say_so(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    await site.gateway.verb(run, Pause())
    await site.rest()
    status = await site.impatient.status(run)

    assert (status.source, status.lifecycle) == ("store", "paused")
    assert status.goal == "write a haiku"
    assert status.budget.limits.tokens == 5_000
    assert "No worker answers" in (status.explanation or "")


async def test_a_history_that_the_server_does_not_have_is_no_unknown_run(site: Site) -> None:
    await site.records.put_run(row("deleted"))
    with pytest.raises(NotFound, match="no history of deleted any more") as gone:
        await site.gateway.history_export("deleted")
    assert "temporal workflow show" in str(gone.value.cure)
    with pytest.raises(NotFound) as unknown:
        await site.gateway.history_export("never-there")
    assert "any more" not in unknown.value.message


async def test_a_stored_end_needs_neither_server_nor_worker(
    away: Gateway, records: MemoryRecords
) -> None:
    await records.put_run(
        row(
            "old-1",
            lifecycle="completed",
            outcome="accepted",
            ended_at=ENDED,
            result=result("old-1").model_dump_json(),
        )
    )
    status = await away.status("old-1")

    assert (status.source, status.lifecycle, status.phase) == ("store", "completed", "ended")
    assert (status.outcome, status.explanation) == ("accepted", "Done.")
    assert status.elapsed_s == 86_400
    assert (await away.result("old-1")).output == "a haiku"


async def test_a_run_whose_server_is_away_is_shown_from_the_store_with_the_reason(
    away: Gateway, records: MemoryRecords
) -> None:
    await records.put_run(row("open-1"))
    status = await away.status("open-1")

    assert status.source == "store"
    assert "does not answer" in (status.explanation or "")


async def test_an_unknown_run_is_not_found(site: Site) -> None:
    with pytest.raises(NotFound, match="no run nowhere"):
        await site.gateway.status("nowhere")
    with pytest.raises(NotFound):
        await site.gateway.result("nowhere")


async def test_a_row_that_no_server_knows_is_called_ended(site: Site) -> None:
    await site.records.put_run(row("ghost-1"))
    status = await site.gateway.status("ghost-1")

    assert (status.lifecycle, status.phase) == ("failed", "ended")
    assert "never started" in (status.explanation or "")


async def test_a_run_whose_start_follows_its_row_has_not_failed(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    begun = await site.records.run(run)
    assert begun is not None
    # The same row under an id that the server gets to know a moment later.
    await site.records.put_run(begun.model_copy(update={"id": "late-1"}))
    assert "is being started" in ((await site.gateway.status("late-1")).explanation or "")
    with pytest.raises(NotAllowed, match="has not begun yet"):
        await site.gateway.result("late-1", wait=False)
    waiting = asyncio.create_task(site.gateway.result("late-1"))
    await asyncio.wait({waiting}, timeout=1.0)  # it has asked the server by then
    history = await site.client.get_workflow_handle(run).fetch_history()
    attributes = history.events[0].workflow_execution_started_event_attributes
    await site.client.start_workflow(
        "AgentLoop",
        args=await site.client.data_converter.decode(attributes.input.payloads, [AgentInput]),
        id="late-1",
        task_queue=attributes.task_queue.name,
    )
    await site.gateway.verb("late-1", Stop())
    assert (await waiting).outcome == "stopped"


async def test_the_result_is_waited_for(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    with pytest.raises(NotAllowed, match="has not ended"):
        await site.gateway.result(run, wait=False)
    await site.gateway.verb(run, Stop())

    assert (await site.gateway.result(run)).outcome == "stopped"
    assert (await site.gateway.result(run, wait=False)).outcome == "stopped"


@pytest.mark.parametrize("goal", ["fail", "fail newer"])
async def test_a_failed_run_hands_over_its_result_too(site: Site, goal: str) -> None:
    await site.work()
    run = await site.gateway.start(spec(goal))
    await site.gateway.verb(run, Stop())

    assert (await site.gateway.result(run)).outcome == "failed"


async def test_what_a_return_value_leaves_out_is_put_back(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec("huge"))
    site.blobs.kept["sha256:whole"] = b"the whole text"
    for index in (1, 2, 3):
        text = IterationRecord(index=index).model_dump_json()
        await site.records.put_record(run, index, text)
    await site.gateway.verb(run, Stop())
    found = await site.gateway.result(run)

    assert found.output == "the whole text"
    assert [record.index for record in found.iterations] == [1, 2, 3]


async def test_a_run_that_was_terminated_tells_what_it_spent(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    site.journal.kept = [attempt(1, run=run, root=run), attempt(2, run=run, root=run, state="lost")]
    record = IterationRecord(index=2, score=0.8, tool_calls=3)
    await site.records.put_record(run, 2, record.model_dump_json())
    await site.client.get_workflow_handle(run).terminate("by hand")
    found, status = await site.gateway.result(run), await site.gateway.status(run)

    assert (found.spend.tokens, found.spend.model_calls, found.spend.tool_calls) == (20, 2, 3)
    assert found.spend.unconfirmed["tokens"] == 10
    assert (status.budget.tokens, status.budget.model_calls, status.iteration) == (20, 2, 2)
    assert (status.outcome, status.gates, status.blocked_on) == ("stopped", (), None)
    assert found.explanation.startswith("The run was stopped; there is nothing to show yet (ended")


async def test_without_the_server_the_store_tells_spend_and_iteration(
    away: Gateway, records: MemoryRecords, journal: MemoryJournal
) -> None:
    await records.put_run(row("open-1"))
    journal.kept = [attempt(1, run="open-1", root="open-1")]
    await records.put_record("open-1", 4, IterationRecord(index=4, score=0.5).model_dump_json())
    status = await away.status("open-1")

    assert (status.iteration, status.budget.tokens, status.source) == (4, 10, "store")
    assert status.best is not None


async def test_a_terminated_run_still_gives_its_best_record(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    site.blobs.kept["sha256:best"] = b"the best draft"
    for index, score, ref in ((1, 0.8, "sha256:best"), (2, 0.5, "sha256:late")):
        record = IterationRecord(index=index, score=score, output_ref=ref)
        await site.records.put_record(run, index, record.model_dump_json())
    await site.client.get_workflow_handle(run).terminate("by hand")
    found = await site.gateway.result(run)
    status = await site.gateway.status(run)

    assert (found.outcome, found.partial, found.output) == ("stopped", True, "the best draft")
    assert found.best is not None
    assert found.best.iteration == 1
    assert "; this is the best result so far (" in found.explanation
    assert (status.lifecycle, status.phase) == ("stopped", "ended")
    assert "from outside" in (status.explanation or "")


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        ("timed_out", "Temporal ended the run at a time limit that was set with its start; there"),
        ("unknown", "The Temporal server does not know this run any more; there is nothing"),
        ("failed", "An error inside Perdure ended the run (boom)."),
        ("terminated", "The run was stopped; there is nothing to show yet (ended from outside"),
    ],
)
def test_a_run_without_a_result_says_who_ended_it(ending: str, told: str) -> None:
    found = torn_result(row("r"), [], ending=ending, why="boom")
    assert found.explanation.startswith(told)
    assert ("inside Perdure" in found.explanation) == (ending == "failed")


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (TimeoutError("late", type=None, last_heartbeat_details=[]), "Temporal ended the run at a"),
        (TerminatedError("by hand"), "The run was stopped; there is nothing to show yet"),
        (CancelledError("by hand"), "The run was stopped; there is nothing to show yet"),
        (ApplicationError("boom"), "An error inside Perdure ended the run (boom)."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_how_the_server_ended_a_run_is_read_from_its_error(
    cause: FailureError, told: str
) -> None:
    async def ended() -> RunResult:
        raise WorkflowFailureError(cause=cause)

    async def connect() -> Client:
        handle = SimpleNamespace(result=ended)
        named = SimpleNamespace(namespace="d", get_workflow_handle=lambda *_, **__: handle)
        return cast(Client, named)

    server = TemporalGateway(connect, address="h", waits=Waits())
    with pytest.raises(EndedWithoutResult) as caught:
        await server.outcome("r")
    found = torn_result(row("r"), [], ending=caught.value.ending, why=caught.value.why)
    assert found.explanation.startswith(told)


def attempt(number: int, **more: object) -> AttemptRow:
    facts: dict[str, object] = {
        "key": f"k{number}",
        "attempt": 1,
        "root": "r",
        "run": "r",
        "phase": "executing",
        "role": "executor",
        "iteration": 1,
        "model": "big",
        "state": "answered",
        "usage": Usage(input_tokens=10),
        "cost_usd": Decimal("0.01"),
        "started_at": datetime(2026, 1, 1, 12, tzinfo=UTC),
        "seconds": 1.5,
    }
    return AttemptRow.model_validate(facts | more)


async def test_costs_are_summed_by_phase_model_and_day(
    away: Gateway, records: MemoryRecords, journal: MemoryJournal
) -> None:
    await records.put_run(row("r"))
    journal.kept = [
        attempt(1),
        attempt(2, phase="evaluating", model="small", cost_usd=Decimal("0.002")),
        attempt(3, state="lost", started_at=datetime(2026, 1, 2, 1, tzinfo=UTC)),
        attempt(4, run="other"),
    ]
    report = await away.costs("r")

    assert (report.total.attempts, report.total.cost_usd) == (3, Decimal("0.022"))
    assert {name: line.cost_usd for name, line in report.by_phase.items()} == {
        "evaluating": Decimal("0.002"),
        "executing": Decimal("0.02"),
    }
    assert list(report.by_model) == ["big", "small"]
    assert list(report.by_day) == ["2026-01-01", "2026-01-02"]
    assert report.unconfirmed.cost_usd == Decimal("0.01")
    assert report.budget is not None
    assert report.source == "store"


async def test_one_unknown_price_makes_the_sum_unknown(
    away: Gateway, records: MemoryRecords, journal: MemoryJournal
) -> None:
    await records.put_run(row("r"))
    journal.kept = [attempt(1), attempt(2, cost_usd=None)]

    assert (await away.costs("r")).total.cost_usd is None
    assert (await away.costs()).total.cost_usd is None
    assert (await away.costs()).total.usage.input_tokens == 20


async def test_while_the_store_is_away_the_run_itself_answers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.work()
    run = await site.gateway.start(spec())

    async def away(_run: str) -> None:
        raise StoreAway("The database is locked.", cure="Wait.")

    monkeypatch.setattr(site.records, "run", away)
    status = await site.gateway.status(run)
    assert (status.lifecycle, status.source, status.trouble) == (
        "running", "run", "The database is locked.",
    )  # fmt: skip
    with pytest.raises(StoreAway, match="locked"):
        await site.gateway.status("agent-of-nobody")
