import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import ResetReapplyType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from waiting import eventually

from perdure.domain.agent.state import AgentInput
from perdure.domain.foundation.errors import NoReadyWorker, NotAllowed, NotFound, ServiceUnavailable
from perdure.domain.run.events import Event
from perdure.domain.run.messages import AddInput, Pause, Resume, Stop
from perdure.domain.turns.records import IterationRecord
from perdure.gateway import event_follower
from perdure.gateway.diagnostics import STORE, STORE_BACK
from perdure.gateway.event_follower import Pace
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.gateway import Gateway
from perdure.gateway.run_problem import RunProblem
from perdure.gateway.temporal_gateway import TemporalGateway
from tests.gateway.memory_stores import MemoryRecords
from tests.gateway.tiny import Site, row, spec


async def collected(gateway: Gateway, run: str, since: int = 0) -> list[Event]:
    return [event async for event in gateway.events(run, since=since)]


async def test_events_come_in_order_and_end_with_ended(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    following = asyncio.create_task(collected(site.gateway, run))
    await site.gateway.verb(run, Pause())
    await site.gateway.verb(run, Resume())
    await site.gateway.verb(run, Stop())
    events = await following

    assert [event.type for event in events] == ["run_started", "paused", "resumed", "ended"]
    assert [event.seq for event in events] == [1, 2, 3, 4]


async def test_following_starts_behind_what_was_seen(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    await site.gateway.verb(run, Pause())
    await site.gateway.verb(run, Stop())
    await site.gateway.result(run)

    assert [event.seq for event in await collected(site.gateway, run, since=2)] == [3]


async def test_a_quiet_run_is_looked_at_but_not_asked(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    looks, asked = 0, 0
    look, query = TemporalGateway.look, TemporalGateway.query

    async def counting_look(self: TemporalGateway, name: str) -> object:
        nonlocal looks
        looks += 1
        if looks == 8:
            await site.gateway.verb(run, Stop())
        return await look(self, name)

    async def counting_query(self: TemporalGateway, *args: object, **named: object) -> object:
        nonlocal asked
        asked += 1
        return await query(self, *args, **named)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(TemporalGateway, "look", counting_look)
    monkeypatch.setattr(TemporalGateway, "query", counting_query)
    events = await collected(site.gateway, run)

    assert events[-1].type == "ended"
    assert looks >= 8
    assert asked <= 4, f"{asked} queries in {looks} looks"


async def test_what_is_sent_to_a_run_wakes_who_follows_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_follower, "Pace", lambda **_: Pace(first=3_600, last=3_600))
    await site.work()
    run = await site.gateway.start(spec())
    events = site.gateway.events(run)
    assert (await anext(events)).type == "run_started"
    following = asyncio.create_task(anext(events))
    await asyncio.sleep(0)  # now it waits for the time of its next look
    await site.gateway.verb(run, Pause())

    assert (await following).type == "paused"


async def test_a_run_that_was_terminated_ends_with_ended_too(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    following = asyncio.create_task(collected(site.gateway, run))
    await site.client.get_workflow_handle(run).terminate("by hand")
    last = (await following)[-1]

    assert last.type == "ended"
    assert last.data["lifecycle"] == "stopped"


async def test_a_stored_end_is_told_when_the_history_is_gone(site: Site) -> None:
    ended = datetime(2026, 1, 2, tzinfo=UTC)
    stored = row("gone-1", lifecycle="completed", outcome="accepted", ended_at=ended)
    await site.records.put_run(stored)
    events = await collected(site.gateway, "gone-1")

    assert [(event.type, event.at) for event in events] == [("ended", ended)]
    assert events[0].data["outcome"] == "accepted"


async def test_a_run_whose_start_follows_its_row_is_followed_from_its_begin(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    begun = await site.records.run(run)
    assert begun is not None
    # The same row under an id that the server gets to know a moment later.
    await site.records.put_run(begun.model_copy(update={"id": "late-2"}))
    following = asyncio.create_task(collected(site.gateway, "late-2"))
    await asyncio.wait({following}, timeout=1.0)  # it has asked the server by then
    assert not following.done()
    history = await site.client.get_workflow_handle(run).fetch_history()
    attributes = history.events[0].workflow_execution_started_event_attributes
    await site.client.start_workflow(
        "AgentLoop",
        args=await site.client.data_converter.decode(attributes.input.payloads, [AgentInput]),
        id="late-2",
        task_queue=attributes.task_queue.name,
    )
    await site.gateway.verb("late-2", Stop())
    assert [event.type for event in await following] == ["run_started", "ended"]


async def test_an_unknown_run_is_not_found(site: Site) -> None:
    with pytest.raises(NotFound):
        await collected(site.gateway, "nowhere")


async def test_a_long_outage_of_the_server_ends_the_following(
    away: Gateway, records: MemoryRecords
) -> None:
    await records.put_run(row("open-1"))
    text = IterationRecord(index=3, score=0.7).model_dump_json()
    await records.put_record("open-1", 3, text)
    began = monotonic()
    with pytest.raises(ServiceUnavailable, match=r"iteration 3, best score 0\.70, 0 tokens"):
        await collected(away, "open-1")
    assert monotonic() - began < 30, "it gives up in a few seconds, not after a minute"


async def test_events_go_on_when_the_worker_comes_back(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    await site.rest()
    following = asyncio.create_task(collected(site.impatient, run))
    await asyncio.wait({following}, timeout=1.5)
    assert not following.done()
    await site.work()

    await eventually(lambda: _taken(site, run, AddInput(text="more", request_id="once")))
    await eventually(lambda: _taken(site, run, Stop(request_id="end")))
    assert [event.type for event in await following] == ["run_started", "input_added", "ended"]


def test_the_pace_grows_to_its_bound_and_falls_back_on_news() -> None:
    pace = Pace(first=0.25, last=2.0)
    seen = [pace.seconds]
    for _ in range(7):
        pace.quiet()
        seen.append(pace.seconds)
    pace.news()

    assert seen == sorted(seen)
    assert (seen[-1], pace.seconds) == (2.0, 0.25)


async def test_a_store_that_is_away_is_told_once_and_so_is_its_return(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    tried, look = 0, TemporalGateway.look

    async def away_for_three_looks(self: TemporalGateway, name: str) -> ExecutionInfo | None:
        nonlocal tried
        tried += 1
        seen = await look(self, name)
        if tried == 5:
            await site.gateway.verb(run, Stop())
        if tried > 3:
            return seen
        trouble = RunProblem(mark=STORE, found=f"waiting for the store; tried {tried} times")
        return seen and replace(seen, trouble=trouble)

    monkeypatch.setattr(TemporalGateway, "look", away_for_three_looks)
    told: list[str] = []
    async for _ in site.gateway.events(run, on_trouble=told.append):
        pass
    assert told == ["waiting for the store; tried 1 times", STORE_BACK]


async def test_who_follows_a_run_that_is_reset_hears_what_its_new_life_does(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    heard: list[Event] = []
    following = asyncio.create_task(_hear(site.gateway, run, heard))
    await site.gateway.verb(run, Pause())
    await site.gateway.verb(run, Resume())
    await eventually(lambda: len(heard) == 3)
    await site.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=site.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run),
            workflow_task_finish_event_id=4,  # its first task
            reset_reapply_type=ResetReapplyType.RESET_REAPPLY_TYPE_NONE,
            request_id="reset",
        )
    )
    await eventually(lambda: _taken(site, run, Pause(request_id="anew")))
    await eventually(lambda: len(heard) == 5)
    await eventually(lambda: _taken(site, run, Stop(request_id="end")))
    await following
    told = [(event.seq, event.type) for event in heard]
    assert told == [
        (1, "run_started"), (2, "paused"), (3, "resumed"),
        (1, "run_started"), (2, "paused"), (3, "ended"),
    ]  # fmt: skip


async def _hear(gateway: Gateway, run: str, heard: list[Event]) -> None:
    async for event in gateway.events(run):
        heard.append(event)


async def _taken(site: Site, run: str, message: AddInput | Pause | Stop) -> bool:
    """Ask a run whose task may be given out again only later; asked twice, it is done once.

    An old worker takes a task with it, and one without a cache drops what waits behind a query. An
    answer within a second is not to be had then.
    """
    try:
        await site.impatient.verb(run, message)
    except NoReadyWorker:
        return False
    except NotAllowed:  # it was taken, and nobody heard in time
        return True
    return True
