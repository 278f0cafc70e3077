"""Trees of runs that are stopped, paused, cancelled or lose a child end whole, and count once."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_runs import call, calls
from delegating import (
    books_of_the_tree_agree,
    completes,
    decides,
    delegates,
    delegation,
    script,
    works,
)
from installation import Installation, installation
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from trees import ALL_ENDED_S, MANAGERS, SLOW_S, called, manages, nobody_runs, running
from waiting import eventually

from perdure.domain.run.messages import Pause, Resume, Stop
from perdure.domain.run.spec import Timing


@pytest.fixture
async def quick(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose steps are heard to have stopped within seconds."""
    address = server.client.service_client.config.target_host
    timing = Timing(heartbeat=2.0, stop_grace=2.0)
    opened = installation(tmp_path / "home", address, timing=timing, heartbeat_s=2.0)
    async with opened as made, made.worker():
        yield made


@pytest.mark.long
async def test_r18_a_terminated_child_gives_its_reservation_back_once(site: Installation) -> None:
    told = {"role": "manager", "contains": "TerminatedError"}
    run = await site.start(
        delegation(),
        script(
            delegates("w1", "w2"),
            works("w1", delay_s=SLOW_S),
            works("w2"),
            {**completes(), "when": told},
        ),
    )
    await called(site, run, f"{run}.w1-w1")
    await site.handle(f"{run}.w1-w1").terminate("a test")
    result = await site.gateway.result(run)
    assert result.outcome == "accepted"
    assert result.spend.unconfirmed_usage.counted_tokens() > 0, "the lost call is booked"
    assert result.spend.workers == 2
    status = await site.status(run)
    assert status.budget.reserved_tokens == 0
    assert [child.outcome for child in status.runs_below] == ["failed", "accepted"]
    await books_of_the_tree_agree(site, result)


@pytest.mark.long
async def test_r18_a_terminated_sub_manager_takes_its_tree_along(quick: Installation) -> None:
    run = await quick.start(
        delegation(),
        script(
            delegates("a", "b", by="m1"),
            manages("m1"),
            works("a"),
            works("b", delay_s=SLOW_S),
            completes(),
        ),
    )
    await called(quick, run, f"{run}.w1-m1.w2-b")
    await quick.handle(f"{run}.w1-m1").terminate("a test")
    result = await quick.gateway.result(run)
    assert result.outcome == "accepted"
    await nobody_runs(quick, run)
    await books_of_the_tree_agree(quick, result)
    assert result.spend.workers == 3


@pytest.mark.long
async def test_r16_a_cancelled_manager_ends_with_everything_below_it(quick: Installation) -> None:
    slow = [works(name, delay_s=SLOW_S) for name in "abc"]
    run = await quick.start(
        delegation(),
        script(
            *(delegates(w, by=m) for w, m in zip("abc", MANAGERS, strict=True)),
            *slow,
            # A fourth, because at most half of the workers and one more may manage.
            decides(
                "delegate",
                delegations=[
                    *({"worker": m, "instructions": m, "sub_manager": True} for m in MANAGERS),
                    {"worker": "d", "instructions": "d", "sub_manager": False},
                ],
            ),
            works("d"),
        ),
    )
    await running(quick, run, 6)
    began = time.monotonic()
    await quick.handle(run).cancel()
    result = await quick.gateway.result(run)
    await nobody_runs(quick, run)
    assert time.monotonic() - began < ALL_ENDED_S
    assert (result.outcome, result.reason) == ("stopped", "stopped")
    assert (await quick.status(run)).budget.reserved_tokens == 0
    for child in ("w1-m1", "w2-m2", "w3-m3"):
        ended = await quick.gateway.result(f"{run}.{child}")
        assert (ended.outcome, ended.reason) == ("stopped", "parent_closed")
    await books_of_the_tree_agree(quick, result)


@pytest.mark.long
async def test_a_child_that_continued_as_new_is_cancelled(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    """A handle of the child names its first execution alone; the call in the last one hears it."""
    timing = Timing(heartbeat=2.0, stop_grace=2.0, roll_events=8)
    address = server.client.service_client.config.target_host
    looks = {"when": {"role": "worker"}, **calls(call("fs.list", path="."))}
    opened = installation(tmp_path / "home", address, timing=timing, heartbeat_s=2.0)
    async with opened as site, site.worker():
        run = await site.start(
            delegation(tools={"access": "readonly"}),
            script(delegates("a"), looks, looks, works("a", delay_s=SLOW_S)),
        )
        child = site.handle(f"{run}.w1-a")
        await eventually(lambda: _calls_in_a_later_execution(site, child.id))
        await site.handle(run).cancel()
        assert (await site.gateway.result(run)).reason == "stopped"
        ended = await site.gateway.result(child.id)
        children = (await site.status(run)).runs_below
    # The child itself was asked, and brought its end in time; the parent did not give it up.
    assert (ended.outcome, ended.reason) == ("stopped", "parent_closed")
    assert [(one.outcome, one.reason) for one in children] == [("stopped", "parent_closed")]


async def _calls_in_a_later_execution(site: Installation, run: str) -> bool:
    try:
        described = (await site.handle(run).describe()).raw_description
    except RPCError:  # not started yet
        return False
    execution = described.workflow_execution_info
    return execution.first_run_id != execution.execution.run_id and bool(
        [one for one in described.pending_activities if one.activity_type.name == "call_model"]
    )


async def test_r17_nothing_runs_on_when_the_manager_is_terminated(quick: Installation) -> None:
    run = await quick.start(
        delegation(), script(delegates("a", by="m1"), manages("m1"), works("a", delay_s=SLOW_S))
    )
    await running(quick, run, 2)
    await quick.handle(run).terminate("a test")
    await nobody_runs(quick, run, seconds=ALL_ENDED_S)
    rows = await quick.parts.stores.journal.tree(root=run, run=run)
    assert not [row for row in rows if row.state == "started"]


@pytest.mark.parametrize("mode", ["now", "graceful"])
async def test_a_stopped_tree_ends_with_its_best(quick: Installation, mode: str) -> None:
    # Long enough that the stop comes while it works. Where it comes later, this work is worse.
    slow = works("b", delay_s=SLOW_S if mode == "now" else 4.0)
    run = await quick.start(
        delegation(),
        script(
            delegates("b", by="m1"),
            slow,
            delegates("w1"),
            works("w1", "the best so far", 0.9),
            delegates("m1", sub_manager=True, instructions="the rest"),
        ),
    )
    await running(quick, run, 2)
    began = time.monotonic()
    await quick.gateway.verb(run, Stop(mode=mode, by="t"))  # type: ignore[arg-type]
    result = await quick.gateway.result(run)
    assert time.monotonic() - began < ALL_ENDED_S
    await nobody_runs(quick, run)
    assert (result.outcome, result.partial) == ("stopped", True)
    assert "the best so far" in (result.output or "")
    await books_of_the_tree_agree(quick, result)


@pytest.mark.long
async def test_a_paused_tree_rests_and_goes_on(site: Installation) -> None:
    looks = [{**calls(call("fs.list", path=".")), "when": {"role": "worker", "worker": "b"}}]
    run = await site.start(
        delegation(tools={"access": "readonly", "allow": ["fs.list"]}),
        script(
            delegates("b", by="m1"),
            completes("m1 did it", by="m1"),
            manages("m1"),
            {**looks[0], "delay_s": 1.0},
            works("b"),
            completes(),
        ),
    )
    leaf = f"{run}.w1-m1.w1-b"
    await running(site, run, 2)
    await site.gateway.verb(run, Pause(by="t"))

    async def rests() -> bool:
        return (await site.status(leaf)).lifecycle == "paused"

    await eventually(rests)
    assert (await site.status(f"{run}.w1-m1")).lifecycle == "paused"

    async def settled() -> int:
        return len(await site.parts.stores.journal.tree(root=run, run=run))

    async def quiet() -> bool:
        before = await settled()
        await asyncio.sleep(0.5)
        return before == await settled()

    await eventually(quiet)
    assert (await site.status(run)).lifecycle == "paused"
    await site.gateway.verb(run, Resume(by="t"))
    result = await site.gateway.result(run)
    assert result.outcome == "accepted"
    await books_of_the_tree_agree(site, result)
