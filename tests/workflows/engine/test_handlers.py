"""Steering a run on a real server: verbs as updates and as signals, gates, clocks, ends."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from holding import HELD, Holding
from installation import Installation
from steered import DONE, HELD_LIST, LIST, in_call, spec, spent, told, types, waiting
from temporalio.client import (
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.events import Event
from perdure.domain.run.messages import (
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Escalate,
    EventsQuery,
    Pause,
    Resume,
    Stop,
)

SOON_S = 10.0


async def test_pause_holds_and_resume_goes_on(site: Installation, holding: Holding) -> None:
    run = await site.start(spec(), {"replies": [HELD_LIST, DONE]})
    await holding.begun()
    receipt = await site.gateway.verb(run, Pause(by="me"))
    assert (receipt.verb, receipt.lifecycle) == ("pause", "paused")
    holding.release()
    await eventually(lambda: _paused_at_rest(site, run))
    before = await spent(site, run)
    assert before.model_calls == 1, "the call in flight finished and was counted once"
    await asyncio.sleep(0.5)
    after = await spent(site, run)
    assert after.active_time_s == before.active_time_s, "a pause burns no active time"
    assert (await told(site, run)).step is None
    await site.gateway.verb(run, Resume(by="me"))
    result = await site.gateway.result(run)
    assert result.output == "All done."
    assert result.spend.model_calls == 2


async def test_more_time_is_refused_once_the_time_limit_has_passed(
    site: Installation, holding: Holding
) -> None:
    run = await site.start(spec(budget={"wall_time": 2}), {"replies": [HELD_LIST, DONE]})
    await holding.begun()

    async def passed() -> bool:
        return (await told(site, run)).elapsed_s >= 2

    await eventually(passed)
    with pytest.raises(NotAllowed, match="the time limit has passed"):
        await site.gateway.verb(run, Amend(budget={"wall_time": 600}, by="me"))
    await site.gateway.verb(run, Amend(budget={"tokens": 90_000}, by="me"))
    holding.release()
    assert (await site.gateway.result(run)).outcome == "deadline"


async def _paused_at_rest(site: Installation, run: str) -> bool:
    status = await told(site, run)
    return status.lifecycle == "paused" and status.step is None


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Resume(), "the run is running, not paused"),
        (Answer(gate="g1", choice="continue"), "there is no gate 'g1'"),
        (Amend(), "amend needs"),
        (Amend(budget={"tokens": 1}), "already spent"),
        (Amend(rubric=[]), "only a refine run"),
        (AddInput(), "the input is empty"),
        (AddInput(text=" "), "the input is empty"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, AnyMessage) else None,
)
async def test_updates_are_rejected_with_the_state(
    site: Installation, holding: Holding, message: AnyMessage, why: str
) -> None:
    run = await site.start(spec(), {"replies": [LIST, {**DONE, "delay_s": HELD}]})
    await holding.begun()
    with pytest.raises(NotAllowed, match=why):
        await site.gateway.verb(run, message)
    holding.release()
    result = await site.gateway.result(run)
    assert result.outcome == "accepted"
    updates = [event for event in await site.history(run) if "UPDATE" in str(event["eventType"])]
    assert not updates, "a rejected update leaves no history"


async def _called(site: Installation, run: str, calls: int) -> bool:
    return (await spent(site, run)).model_calls >= calls


async def test_signals_are_noted_and_never_fail_the_run(
    site: Installation, holding: Holding
) -> None:
    run = await site.start(spec(), {"replies": [HELD_LIST, DONE]})
    handle = site.handle(run)
    for name, message in [
        ("resume", Resume()),
        ("answer", Answer(gate="g9", choice="x")),
        ("amend", Amend()),
        ("add_input", AddInput()),
    ]:
        await handle.signal(name, message)
    await handle.signal("pause", {"no_such": "field"})
    await eventually(lambda: _refused(site, run, 5))
    holding.release()
    status = await told(site, run)
    assert [note.partition(":")[0] for note in status.refused] == [
        "resume", "answer", "amend", "add_input", "pause",
    ]  # fmt: skip
    result = await site.gateway.result(run)
    assert result.outcome == "accepted"


async def _refused(site: Installation, run: str, count: int) -> bool:
    return len((await told(site, run)).refused) >= count


@pytest.mark.long
async def test_one_request_id_has_one_effect(site: Installation, holding: Holding) -> None:
    run = await site.start(spec(), {"replies": [HELD_LIST, DONE]})
    await holding.begun()
    first = AddInput(text="also this", request_id="r1", by="me")
    for _ in range(3):
        await site.gateway.verb(run, first)
    await site.handle(run).signal("add_input", first)
    holding.release()
    await site.gateway.result(run)
    assert (await types(site, run)).count("input_added") == 1


async def test_a_request_id_of_another_message_is_no_repeat(
    site: Installation, holding: Holding
) -> None:
    run = await site.start(spec(), {"replies": [HELD_LIST, DONE]})
    await holding.begun()
    handle = site.handle(run)
    await handle.execute_update("pause", {"request_id": "1"})
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await handle.execute_update("resume", {"request_id": "1"})
    assert "'1' was used for another message" in str(refused.value.cause)
    await handle.signal("stop", {"request_id": "1"})
    await eventually(lambda: _refused(site, run, 1))
    status = await told(site, run)
    assert status.lifecycle == "paused"
    assert status.refused[0].startswith("stop: the request id '1' was used for another message")
    await handle.execute_update("resume", {"request_id": "2"})
    holding.release()
    assert (await site.gateway.result(run)).output == "All done."


@pytest.mark.long
@pytest.mark.parametrize(("mode", "calls"), [("graceful", 2), ("now", 1)])
async def test_stop_ends_with_what_there_is(
    site: Installation, holding: Holding, mode: str, calls: int
) -> None:
    slow = {**DONE, "delay_s": HELD} if mode == "now" else HELD_LIST
    run = await site.start(spec(), {"replies": [LIST, slow, {"text": "So far."}]})
    await holding.begun()
    started = asyncio.get_running_loop().time()
    await site.gateway.verb(run, Stop(mode=mode, by="me"))  # type: ignore[arg-type]
    if mode == "graceful":
        holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("stopped", "stopped")
    assert asyncio.get_running_loop().time() - started < 60
    assert result.spend.model_calls >= calls
    with pytest.raises(NotAllowed, match="ended"):
        await site.gateway.verb(run, Pause())


@pytest.mark.long
async def test_cancelling_is_a_stop_with_a_result(site: Installation) -> None:
    run = await site.start(spec(), {"replies": [{**DONE, "delay_s": 20}]})
    await in_call(site, run)
    await site.handle(run).cancel()
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("stopped", "stopped")
    described = await site.handle(run).describe()
    assert described.status == WorkflowExecutionStatus.COMPLETED


@pytest.mark.long
async def test_a_terminated_run_is_told_as_such(site: Installation) -> None:
    run = await site.start(spec(), {"replies": [{**DONE, "delay_s": 20}]})
    await in_call(site, run)
    await site.handle(run).terminate("by hand")
    status = await site.status(run)
    assert status.lifecycle in {"failed", "stopped"}
    assert status.source == "store"


@pytest.mark.parametrize(
    ("choice", "outcome", "reason"),
    [
        ("continue", "accepted", "text_answer"),
        ("accept", "accepted", "approved"),
        ("stop", "stopped", "stopped"),
    ],
)
async def test_an_escalation_asks_and_obeys(
    site: Installation, holding: Holding, choice: str, outcome: str, reason: str
) -> None:
    run = await site.start(spec(), {"replies": [HELD_LIST, DONE, DONE]})
    await holding.begun()
    await site.gateway.verb(run, Escalate(note="look here", by="me"))
    holding.release()
    gate = await waiting(site, run)
    assert (gate.id, gate.kind, gate.prompt) == ("g1", "escalation", "look here")
    described = await site.handle(run).describe()
    attributes = {pair.key.name: pair.value for pair in described.typed_search_attributes}
    assert attributes["PerdureBlockedOn"] == "escalation"
    assert attributes["PerdureLifecycle"] == "waiting"
    with pytest.raises(NotAllowed, match="not one of"):
        await site.gateway.verb(run, Answer(gate="g1", choice="maybe"))
    await site.gateway.verb(run, Answer(gate="g1", choice=choice, text="be brief", by="me"))
    with pytest.raises(NotAllowed):
        await site.gateway.verb(run, Answer(gate="g1", choice="stop", by="late"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == (outcome, reason)
    ended = await site.handle(run).describe()
    attributes = {pair.key.name: pair.value for pair in ended.typed_search_attributes}
    assert "PerdureBlockedOn" not in attributes
    assert attributes["PerdureOutcome"] == outcome


@pytest.mark.long
@pytest.mark.parametrize(
    ("on_expiry", "outcome", "reason"),
    [
        ("end", "unanswered", "gate_expired"),
        ("safe", "unanswered", "gate_expired"),
        ("default:accept", "accepted", "approved"),
    ],
)
async def test_a_gate_that_nobody_answers(
    site: Installation, holding: Holding, on_expiry: str, outcome: str, reason: str
) -> None:
    run = await site.start(
        spec(gates={"timeout_s": 1.0, "on_expiry": on_expiry}), {"replies": [HELD_LIST, DONE]}
    )
    await site.gateway.verb(run, Escalate(note="look"))
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == (outcome, reason)


@pytest.mark.long
async def test_a_gate_that_waits_beyond_its_deadline_burns_nothing(
    site: Installation, holding: Holding
) -> None:
    gates = {"timeout_s": 0.3, "on_expiry": "wait"}
    run = await site.start(spec(gates=gates), {"replies": [HELD_LIST, DONE, DONE]})
    await site.gateway.verb(run, Escalate(note="look"))
    holding.release()
    gate = await waiting(site, run)
    await asyncio.sleep(1.5)
    length = (await site.handle(run).describe()).history_length
    await asyncio.sleep(1.0)
    assert (await site.handle(run).describe()).history_length == length, "no busy timers"
    active = (await spent(site, run)).active_time_s
    await site.gateway.verb(run, Answer(gate=gate.id, choice="accept"))
    result = await site.gateway.result(run)
    assert result.spend.active_time_s == pytest.approx(active, abs=0.01)


async def test_amended_limits_and_guidance(site: Installation, holding: Holding) -> None:
    run = await site.start(spec(), {"replies": [HELD_LIST, DONE]})
    await holding.begun()
    message = Amend(budget={"tokens": 500_000}, guidance="be brief", by="me")
    await site.gateway.verb(run, message)
    status = await told(site, run)
    assert status.budget.limits.tokens == 500_000
    assert status.amendments[0]["by"] == "me"
    holding.release()
    result = await site.gateway.result(run)
    assert result.transcript is not None
    messages = await site.parts.stores.transcripts.load(result.transcript)
    assert sum("Guidance: be brief" in message.text for message in messages) == 1


@pytest.mark.long
async def test_the_wall_clock_ends_a_step_in_flight(site: Installation) -> None:
    run = await site.start(spec(budget={"wall_time": 2.0}), {"replies": [{**DONE, "delay_s": 30}]})
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("deadline", "wall_time")
    assert 1.9 <= result.spend.wall_time_s < 14


@pytest.mark.slow
async def test_an_amended_deadline_moves(site: Installation, holding: Holding) -> None:
    run = await site.start(
        spec(budget={"wall_time": SOON_S}), {"replies": [{**DONE, "delay_s": HELD}]}
    )
    await holding.begun()
    await site.gateway.verb(run, Amend(budget={"wall_time": 3_600.0}))
    began = (await site.handle(run).describe()).start_time
    await eventually(lambda: datetime.now(tz=UTC) > began + timedelta(seconds=SOON_S + 1.0))
    holding.release()
    assert (await site.gateway.result(run)).outcome == "accepted"


async def test_a_failed_root_run_is_failed_with_its_result(site: Installation) -> None:
    run = await site.start(spec(), {"replies": [{"error": {"status": 400}}]})
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("failed", "model_error")
    described = await site.handle(run).describe()
    assert described.status == WorkflowExecutionStatus.FAILED
    with pytest.raises(WorkflowFailureError) as caught:
        await site.handle(run).result()
    cause = caught.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == "RunFailed"
    assert cause.details[0]["outcome"] == "failed"


@pytest.mark.long
async def test_the_panel_and_events_tell_the_run(site: Installation) -> None:
    run = await site.start(spec(goal="count the sheep"), {"replies": [LIST, DONE]})
    await site.gateway.result(run)
    metadata = await site.handle(run).query("__temporal_workflow_metadata")
    assert "count the sheep" in str(metadata)
    events = await site.handle(run).query("events", EventsQuery(since=2), result_type=list[Event])
    assert [event.seq for event in events] == list(range(3, 3 + len(events)))
    assert events[-1].type == "ended"


@pytest.mark.long
async def test_live_text_is_there_during_the_call_and_gone_after(site: Installation) -> None:
    run = await site.start(spec(), {"replies": [{"text": "word " * 200, "delay_s": 2}]})
    live = site.parts.stores.live()
    await live.watch(run)

    async def growing() -> bool:
        return any(call.text for call in await live.below(run))

    async def gone() -> bool:
        return not await live.below(run)

    await eventually(growing)
    await site.gateway.result(run)
    await eventually(gone)
