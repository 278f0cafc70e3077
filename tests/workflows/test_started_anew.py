"""Nothing begins a run anew over its records: no copied input, and no retry of the server's own."""

import uuid
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from installation import Installation, installation
from started_again import reset_to, start_like
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.messages import Amend, Answer, Retry, Stop
from perdure.domain.run.spec import Timing

ASKS = {"tool_calls": [{"name": "human.ask", "arguments": {"question": "which?"}}]}
READONLY = {"access": "readonly"}


async def _agent(site: Installation, *replies: object) -> dict[str, object]:
    model = await site.script({"replies": list(replies)})
    return {"goal": "Name a fruit.", "models": {"executor": model}, "tools": READONLY}


async def _asks(site: Installation, run: str) -> None:
    async def waits() -> bool:
        return (await site.gateway.status(run)).blocked_on is not None

    assert await eventually(waits)


async def _copied(site: Installation, run: str, execution: str) -> ApplicationError:
    """Start an execution once more under its id, as people do in the Web UI; how it fails."""
    await start_like(site.client, run, name=run, execution=execution)
    with pytest.raises(WorkflowFailureError) as caught:
        await site.client.get_workflow_handle(run).result()
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "invalid_input"
    return caught.value.cause


async def _newest(handle: WorkflowHandle[object, object]) -> str:
    return (await handle.describe()).run_id or ""


@pytest.mark.parametrize("kind", ["agent", "refine", "roles", "delegation"])
async def test_a_run_that_ended_is_not_begun_anew(site: Installation, kind: str) -> None:
    model = await site.script({"replies": [{"text": "no such thing"}] * 40})
    rubric = [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 4}}]
    more: dict[str, dict[str, object]] = {
        "refine": {"rubric": rubric, "refine": {"plan": "off"}},
        "roles": {"roles": {"definition": "reflection"}},
    }
    task = {"kind": kind, "goal": "Be short.", "models": {"executor": model}, **more.get(kind, {})}
    result = await site.run(task)
    records, taken = await site.records(result.id), await site.replies_taken(result.id)
    error = await _copied(site, result.id, await _newest(site.handle(result.id)))
    assert "has ended already" in error.message
    kept = await site.gateway.result(result.id)
    assert (kept.outcome, kept.output_ref) == (result.outcome, result.output_ref)
    assert kept.spend == result.spend
    assert await site.records(result.id) == records
    assert await site.replies_taken(result.id) == taken
    assert (await site.gateway.status(result.id)).outcome == result.outcome


async def test_a_run_that_was_terminated_keeps_its_spend(site: Installation) -> None:
    task = await _agent(site, ASKS, {"text": "An apple."}, {"text": "A pear."})
    run = await site.start({"kind": "agent", **task})
    await _asks(site, run)
    first = await _newest(site.handle(run))
    await site.handle(run).terminate("by an operator")
    assert "has begun already" in (await _copied(site, run, first)).message
    await site.gateway.verb(run, Retry())
    await site.gateway.verb(run, Stop())
    await site.handle(run).result()
    result = await site.gateway.result(run)
    assert result.outcome == "stopped"
    assert result.spend.model_calls == await site.replies_taken(run) > 0


@pytest.mark.parametrize("goal", ["Name a fruit.", "Name a tree."])
async def test_a_start_that_replaces_a_run_is_told_as_refused(
    site: Installation, goal: str
) -> None:
    """`TERMINATE_EXISTING` ends the run; the refusal of the other start is not how it ended."""
    task = await _agent(site, ASKS, {"text": "An apple."})
    start = partial(
        site.client.start_workflow,
        "AgentLoop",
        id=f"replaced-{uuid.uuid4().hex[:8]}",
        task_queue=site.settings.task_queue,
    )
    run = (await start(task)).id
    await _asks(site, run)
    replaced = await start(
        {**task, "goal": goal}, id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING
    )
    with pytest.raises(WorkflowFailureError):
        await replaced.result()
    result, status = await site.gateway.result(run), await site.gateway.status(run)
    told = "The run was ended from outside, and a later start under its id was refused"
    assert result.explanation.startswith(told)
    assert result.error is None
    assert status.explanation is not None and status.explanation.startswith(told)
    assert result.spend.model_calls == 1
    await site.gateway.verb(run, Retry())
    await site.gateway.verb(run, Stop())


async def test_the_middle_of_a_run_is_no_beginning(site: Installation) -> None:
    plain = await Client.connect(site.address)
    handle = await plain.start_workflow(
        "AgentLoop",
        await _agent(site, {"text": "An apple."}, {"text": "A pear."}),
        id=f"middle-{uuid.uuid4().hex[:8]}",
        task_queue=site.settings.task_queue,
    )
    await handle.result()
    second = await _newest(plain.get_workflow_handle(handle.id))
    error = await _copied(site, handle.id, second)
    assert "from the middle of an earlier execution" in error.message
    assert (await site.gateway.result(handle.id)).output == "An apple."
    assert await site.replies_taken(handle.id) == 1


@pytest.mark.long
async def test_a_retry_of_the_server_counts_what_was_spent_before(site: Installation) -> None:
    task = await _agent(site, *[ASKS] * 9)
    plain = await Client.connect(site.address)
    handle = await plain.start_workflow(
        "AgentLoop",
        {**task, "budget": {"model_calls": 2}},
        id=f"again-{uuid.uuid4().hex[:8]}",
        task_queue=site.settings.task_queue,
        run_timeout=timedelta(seconds=5),
        retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100)),
    )
    result = await handle.result()
    assert isinstance(result, dict)
    assert (result["outcome"], result["reason"]) == ("out_of_budget", "model_calls")
    assert result["spend"]["model_calls"] == await site.replies_taken(handle.id) == 2
    assert (await site.gateway.result(handle.id)).outcome == "out_of_budget"


@pytest.mark.parametrize("ended", [False, True], ids=["open", "ended"])
async def test_a_reset_of_the_execution_that_read_the_task_counts_both_lives(
    site: Installation, ended: bool
) -> None:
    """As `temporal workflow reset --query` does, which finds that execution too."""
    replies = [{"text": "An apple."}] if ended else [ASKS]
    plain = await Client.connect(site.address)
    handle = await plain.start_workflow(
        "AgentLoop",
        await _agent(site, *replies * 9),
        id=f"reread-{uuid.uuid4().hex[:8]}",
        task_queue=site.settings.task_queue,
    )
    await (handle.result() if ended else _asks(site, handle.id))
    first = handle.first_execution_run_id or ""
    await reset_to(plain, handle.id, first, task=-1)

    async def again() -> bool:
        return await site.replies_taken(handle.id) == 2

    assert await eventually(again)
    if not ended:
        await _asks(site, handle.id)
        await site.gateway.verb(handle.id, Stop())
    await plain.get_workflow_handle(handle.id).result()
    result = await site.gateway.result(handle.id)
    assert result.outcome == ("accepted" if ended else "stopped")
    assert result.spend.model_calls == await site.replies_taken(handle.id) == (2 if ended else 3), (
        "a stop asks the model to close"
    )


async def test_a_run_that_a_plain_client_started_goes_on_after_a_reset(site: Installation) -> None:
    plain = await Client.connect(site.address)
    handle = await plain.start_workflow(
        "AgentLoop",
        await _agent(site, {"text": "An apple."}, {"text": "A pear."}),
        id=f"reset-{uuid.uuid4().hex[:8]}",
        task_queue=site.settings.task_queue,
    )
    await handle.result()
    loop = plain.get_workflow_handle(handle.id)
    await reset_to(plain, handle.id, await _newest(loop), task=0)
    await loop.result()
    result = await site.gateway.result(handle.id)
    assert (result.outcome, result.output) == ("accepted", "A pear.")
    assert result.spend.model_calls == await site.replies_taken(handle.id) == 2


async def test_a_run_reset_at_its_question_takes_over_before_it_continues_as_new(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    """Only the execution that was reset knows of it: the next one has no older life to count."""
    address = server.client.service_client.config.target_host
    timing = Timing(roll_messages=1)
    async with installation(tmp_path, address, timing=timing) as site, site.worker():
        run = await site.start({"kind": "agent", **await _agent(site, *[ASKS] * 9)})
        first = await _asked(site, run, "g1")
        await site.gateway.verb(run, Answer(gate="g1", text="the red one"))
        await _asked(site, run, "g2")
        await reset_to(site.client, run, first, task=-1, hears_again=False)
        again = await _asked(site, run, "g1")
        assert again != first
        await site.gateway.verb(run, Amend(guidance="Be brief."))

        async def rolled() -> bool:
            return await _newest(site.handle(run)) != again

        assert await eventually(rolled)
        await _asked(site, run, "g1")
        await site.gateway.verb(run, Stop(mode="now"))
        result = await site.gateway.result(run)
        assert result.spend.model_calls == await site.replies_taken(run) == 2


async def _asked(site: Installation, run: str, gate: str) -> str:
    """Wait until a run asks by a gate of that name; the execution that does."""

    async def asks() -> bool:
        return [one.id for one in (await site.gateway.status(run)).gates] == [gate]

    assert await eventually(asks)
    return await _newest(site.handle(run))
