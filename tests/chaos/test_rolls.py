"""R14, R19, R20, R21, R23, R43, R48, R49: rolling over, many messages, large batches, no cache."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ground import Ground, ground
from invariants import executions
from provider import Play
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import AddInput, Answer, Pause, Resume
from perdure.domain.run.spec import Timing

LOOK = ("effect.again", {"word": "a"})
EXEMPT = {"repeat_exempt": ["effect.again", "effect.approved"]}
ROLLING = Timing(stop_grace=2.0, roll_events=1)


@pytest.fixture
async def rolling(
    server: WorkflowEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Ground]:
    """A ground whose runs continue as new at every checkpoint."""
    monkeypatch.setenv("TOOL_LEDGER", str(tmp_path / "effects.jsonl"))
    address = server.client.service_client.config.target_host
    async with ground(tmp_path, address, timing=ROLLING) as made, made.site.worker():
        yield made


def turns(count: int) -> list[Play]:
    return [*[Play(text="", calls=[LOOK])] * count, Play(text="done")]


async def test_r21_a_run_that_always_rolls_orphans_nothing(rolling: Ground) -> None:
    rolling.provider.plays = turns(4)
    run = await rolling.start(tools=EXEMPT)
    result = await rolling.check(run)
    assert (result.output, result.iteration_count) == ("done", 5)
    histories = await executions(rolling.site, run)
    assert len(histories) >= 5
    assert len(rolling.provider.lines()) == 5


@pytest.mark.long
async def test_r19_every_signal_of_a_rolling_run_is_applied_once(rolling: Ground) -> None:
    looking = [Play(text="", calls=[LOOK], delay_s=0.2)] * 2
    rolling.provider.plays = [
        *looking, Play(text="", calls=[LOOK], gate="all sent"), Play(text="done"),
    ]  # fmt: skip
    run = await rolling.start(tools=EXEMPT)
    handle = rolling.site.handle(run)
    sent = 20
    for number in range(sent):
        message = AddInput(text=f"input-{number}.", request_id=f"r{number}")
        await handle.signal("add_input", message)
        await handle.signal("add_input", message)
    rolling.provider.open("all sent")
    result = await rolling.check(run)
    told = str([body["messages"] for body in rolling.provider.bodies[-1:]])
    unread = " ".join(result.unread_input)
    for number in range(sent):
        assert told.count(f"input-{number}.") + unread.count(f"input-{number}.") == 1, number


@pytest.mark.long
async def test_r20_every_update_of_a_rolling_run_is_applied_once(rolling: Ground) -> None:
    """Each gets its answer from one execution or the next, and acts in one of them."""
    looking = [Play(text="", calls=[LOOK], delay_s=0.2)] * 2
    rolling.provider.plays = [
        *looking, Play(text="", calls=[LOOK], gate="all sent"), Play(text="done"),
    ]  # fmt: skip
    run = await rolling.start(tools=EXEMPT)
    sent = 20
    for number in range(sent):
        message = AddInput(text=f"input-{number}.", request_id=f"r{number}")
        await asyncio.gather(*(rolling.verb(run, message) for _ in range(2)))
    rolling.provider.open("all sent")
    result = await rolling.check(run)
    told = str([body["messages"] for body in rolling.provider.bodies[-1:]])
    unread = " ".join(result.unread_input)
    for number in range(sent):
        assert told.count(f"input-{number}.") + unread.count(f"input-{number}.") == 1, number
    assert len(await executions(rolling.site, run)) >= 3


@pytest.mark.long
async def test_r14_a_pause_outlives_the_roll(rolling: Ground) -> None:
    rolling.provider.plays = [Play(text="", calls=[LOOK], gate="later"), Play(text="done")]
    run = await rolling.start(tools=EXEMPT)
    await rolling.billed(1)
    await rolling.verb(run, Pause())
    rolling.provider.open("later")

    async def at_rest() -> bool:
        status = await rolling.site.status(run)
        return status.lifecycle == "paused" and status.step is None

    await eventually(at_rest)
    await asyncio.sleep(0.5)
    assert len(rolling.provider.lines()) == 1
    await rolling.verb(run, Resume())
    assert (await rolling.check(run)).output == "done"


@pytest.mark.long
async def test_r48_an_approval_over_a_roll_and_answered_twice(rolling: Ground) -> None:
    rolling.provider.plays = [
        Play(text="", calls=[("effect.approved", {"word": "a"}), LOOK]),
        Play(text="done"),
    ]
    run = await rolling.start(tools=EXEMPT)

    async def asked() -> bool:
        return bool((await rolling.site.status(run)).gates)

    await eventually(asked)
    gate = (await rolling.site.status(run)).gates[0]
    with pytest.raises(NotAllowed, match="other arguments"):
        await rolling.verb(run, Answer(gate=gate.id, choice="approve", args_hash="0" * 64))
    with pytest.raises(NotAllowed, match="args_hash"):
        await rolling.verb(run, Answer(gate=gate.id, choice="approve"))
    good = Answer(gate=gate.id, choice="approve", args_hash=gate.args_hash, by="me")
    await rolling.verb(run, good)
    result = await rolling.check(run)
    assert [call.outcome for call in result.iterations[0].calls] == ["ok", "ok"]
    assert sum('"approved"' in row for row in rolling.effects.read_text().splitlines()) == 1


@pytest.mark.slow
async def test_r48_an_answer_while_no_worker_runs_counts(chaos: Ground) -> None:
    call = ("effect.approved", {"word": "a"})
    chaos.provider.plays = [Play(text="", calls=[call]), Play(text="done")]

    async def asked() -> bool:
        return bool((await chaos.site.status(run)).gates)

    async with chaos.site.worker():
        run = await chaos.start()
        await eventually(asked)
        gate = (await chaos.site.status(run)).gates[0]
    answer = Answer(gate=gate.id, choice="approve", args_hash=gate.args_hash, by="me")
    await chaos.site.handle(run).signal("answer", answer)
    await chaos.site.handle(run).signal("answer", answer.model_copy(update={"choice": "deny"}))
    async with chaos.site.worker():
        result = await chaos.check(run, kills=1)
    assert [call.outcome for call in result.iterations[0].calls] == ["ok"]


@pytest.mark.long
@pytest.mark.parametrize("count", [100, pytest.param(500, marks=pytest.mark.slow)])
async def test_r23_many_calls_in_one_turn_run_in_waves(served: Ground, count: int) -> None:
    calls = [("effect.again", {"word": f"{number}"}) for number in range(count)]
    served.provider.plays = [Play(text="", calls=calls), Play(text="done")]
    result = await served.check(await served.start(tools=EXEMPT))
    assert len(served.effects.read_text().splitlines()) == count
    assert result.spend.tool_calls == count


@pytest.mark.long
async def test_r43_repeated_and_crowded_updates(served: Ground) -> None:
    served.provider.plays = [Play(text="done", gate="later"), Play(text="more")]
    run = await served.start()
    await served.billed(1)
    messages = [AddInput(text=f"say {number}", request_id=f"r{number % 6}") for number in range(24)]
    for start in range(0, len(messages), 6):
        await asyncio.gather(*(served.verb(run, one) for one in messages[start : start + 6]))
    served.provider.open("later")
    await served.check(run)
    told = str(served.provider.bodies[-1]["messages"])
    assert sum(told.count(f"say {number}") for number in range(24)) >= 6
    assert "say 7" not in told, "a repeated request id has no second effect"


@pytest.mark.parametrize("kept", [0, 1])
async def test_r49_without_cached_workflows_nothing_changes(chaos: Ground, kept: int) -> None:
    chaos.provider.plays = turns(3)
    async with chaos.site.worker(max_cached_workflows=kept):
        result = await chaos.check(await chaos.start(tools=EXEMPT))
    assert (result.output, result.iteration_count) == ("done", 4)
    assert len(chaos.provider.lines()) == 4


@pytest.mark.long
async def test_r26_a_state_above_every_payload_limit_still_rolls(rolling: Ground) -> None:
    """2.4 MB of input reach the next execution and the model, by reference."""
    rolling.provider.plays = [Play(text="", calls=[LOOK], gate="later"), Play(text="done")]
    run = await rolling.start(tools=EXEMPT, budget={"tokens": 5_000_000, "cost_usd": 50})
    await rolling.billed(1)
    handle = rolling.site.handle(run)
    for first in range(0, 300, 20):
        texts = [f"{number} " + "x" * 8_000 for number in range(first, first + 20)]
        await asyncio.gather(*(handle.signal("add_input", AddInput(text=text)) for text in texts))
    rolling.provider.open("later")
    # The server itself breaks off a task that buffers more than 2 MiB of signals.
    result = await rolling.check(run, failed_tasks=5)
    assert result.outcome == "accepted"
    assert len(await executions(rolling.site, run)) >= 2
