"""Trees of runs on a real server: budgets, stops, pauses, lost children, files, large contexts."""

import asyncio
import time
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest
from agent_runs import call, calls
from delegating import (
    Reply,
    books_of_the_tree_agree,
    completes,
    decides,
    delegates,
    delegation,
    script,
    works,
)
from installation import Installation, installation
from temporalio.client import WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.budget import BudgetLimits
from perdure.domain.messages import Pause, Resume, Retry, Stop
from perdure.domain.run import Timing
from perdure.interfaces.gateway import RunFilter

SLOW_S = 60.0
MANAGERS = ("m1", "m2", "m3")
ALL_ENDED_S = 15.0
DEAR = {"input_per_million": 0.1, "output_per_million": 160.0}


@pytest.fixture
async def quick(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose steps are heard to have stopped within seconds."""
    address = server.client.service_client.config.target_host
    timing = Timing(heartbeat=2.0, stop_grace=2.0)
    opened = installation(tmp_path / "home", address, timing=timing, heartbeat_s=2.0)
    async with opened as made, made.worker():
        yield made


def sub(name: str, *workers: str) -> tuple[Reply, ...]:
    """The replies of a sub-manager that has its own workers."""
    return (
        delegates(*workers, by=name),
        *(works(worker) for worker in workers),
        completes(f"{name} did it", by=name),
    )


def manages(*names: str) -> Reply:
    return delegates(*names, sub_manager=True)


async def children_of(site: Installation, run: str) -> dict[str, WorkflowExecutionStatus | None]:
    """Every execution below a run, by id."""
    found = site.client.list_workflows(f"RootWorkflowId = '{run}'")
    return {item.id: item.status async for item in found if item.id != run}


async def running(site: Installation, run: str, at_least: int) -> dict[str, object]:
    """Wait until so many runs below this one are open, and return them."""
    open_ones: dict[str, object] = {}

    async def enough() -> bool:
        nonlocal open_ones
        found = await children_of(site, run)
        open_ones = {k: v for k, v in found.items() if v == WorkflowExecutionStatus.RUNNING}
        return len(open_ones) >= at_least

    await eventually(enough)
    return open_ones


async def called(site: Installation, root: str, run: str) -> None:
    """Wait until a model call of a run is under way."""

    async def billed() -> bool:
        rows = await site.parts.stores.journal.tree(root=root, run=run)
        return any(row.state == "started" for row in rows)

    await eventually(billed)


async def nobody_runs(site: Installation, run: str, *, seconds: float = 30.0) -> None:
    async def none() -> bool:
        found = await children_of(site, run)
        return WorkflowExecutionStatus.RUNNING not in found.values()

    await eventually(none, seconds=seconds)


async def test_sub_managers_have_workers_of_their_own(site: Installation) -> None:
    result = await site.run(
        delegation(),
        script(*sub("m1", "a", "b"), *sub("m2", "c"), manages("m1", "m2"), completes()),
    )
    assert result.outcome == "accepted"
    assert (result.spend.workers, result.spend.sub_managers) == (5, 2)
    await books_of_the_tree_agree(site, result)
    page = await site.gateway.list(RunFilter(root=result.id))
    assert len(page.runs) == 6
    listed = [row.id for row in (await site.gateway.list()).runs if row.id.startswith(result.id)]
    assert listed == [result.id], "children are listed with their root alone"
    assert await site.gateway.resolve(result.id[:-1]) == result.id
    assert await site.gateway.resolve("@last") == result.id
    costs = await site.gateway.costs(result.id)
    assert costs.total.cost_usd == result.spend.cost_usd
    below = await site.gateway.result(f"{result.id}.w1-m1")
    assert below.output == "m1 did it"


@pytest.mark.parametrize(
    ("more", "sub_managers"),
    [
        ({"budget": {"depth": 0}}, 0),
        ({"delegation": {"submanagers": {"at_once": 1}}}, 1),
        ({"delegation": {"submanagers": {"per_run": 0}}}, 0),
    ],
    ids=["depth 0 allows workers", "one at once", "none in the tree"],
)
async def test_who_may_not_manage_works_alone(
    site: Installation, more: dict[str, object], sub_managers: int
) -> None:
    alone = [works(name) for name in ("m1", "m2")]
    result = await site.run(
        delegation(**more), script(*sub("m1", "a"), *alone, manages("m1", "m2"), completes())
    )
    assert result.outcome == "accepted"
    assert result.spend.sub_managers == sub_managers


async def test_r46_the_third_half_of_the_budget_is_refused(site: Installation) -> None:
    told = {"role": "manager", "contains": "add up to more than there is"}
    result = await site.run(
        delegation(),
        script(
            delegates("w1", "w2", "w3", budget_share=0.5),
            works("w1"),
            works("w2"),
            {**completes(), "when": told},
        ),
    )
    assert (result.outcome, result.spend.workers) == ("accepted", 2)


FIFTY = [f"w{number}" for number in range(50)]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("budget", "most"),
    [
        pytest.param({"tokens": 0, "cost_usd": 0, "model_calls": 52}, 1, id="calls for one left"),
        # A review reserves 1,024 tokens of output, 0.16 USD. What that leaves pays for a short one,
        # which is cut, and asked for again.
        pytest.param({"tokens": 0, "cost_usd": "0.18"}, 3, id="money for one left"),
    ],
)
async def test_r45_fifty_calls_at_once_never_pass_the_one_budget(
    site: Installation, budget: dict[str, object], most: int
) -> None:
    work = [
        {"worker": name, "instructions": f"Do the part {name}.", "acceptance": "It names steel."}
        for name in FIFTY
    ]
    free = {"usage": {"input_tokens": 0, "output_tokens": 0}}
    review = {"score": 0.9, "defects": []}
    run = await site.start(
        delegation(
            budget={**budget, "wrap_up": 0},
            delegation={"workers_per_iteration": 0, "critique": {"enabled": True, "repairs": 0}},
        ),
        script(
            {**decides("delegate", delegations=work), **free},
            *({**works(name), **free} for name in FIFTY),
            {"when": {"role": "critic"}, "json": review, "delay_s": 0.5, "times": 50},
            {**completes(), **free},
            price=DEAR,
        ),
    )
    result = await site.gateway.result(run)
    rows = await site.parts.stores.journal.tree(root=run, run=run)
    reviews = [row for row in rows if row.role == "critic"]
    assert result.spend.workers == 50
    assert 1 <= len(reviews) <= most
    limits = BudgetLimits.model_validate(budget)
    assert result.spend.model_calls <= (limits.model_calls or 1_000)
    assert result.spend.cost_usd is not None
    assert result.spend.cost_usd <= (limits.cost_usd or 1_000)
    await books_of_the_tree_agree(site, result)


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


async def test_r17_nothing_runs_on_when_the_manager_is_terminated(quick: Installation) -> None:
    run = await quick.start(
        delegation(),
        script(delegates("a", by="m1"), manages("m1"), works("a", delay_s=SLOW_S)),
    )
    await running(quick, run, 2)
    await quick.handle(run).terminate("a test")
    await nobody_runs(quick, run, seconds=ALL_ENDED_S)
    rows = await quick.parts.stores.journal.tree(root=run, run=run)
    assert not [row for row in rows if row.state == "started"]


@pytest.mark.parametrize("mode", ["now", "graceful"])
async def test_a_stopped_tree_ends_with_its_best(quick: Installation, mode: str) -> None:
    slow = works("b", delay_s=SLOW_S if mode == "now" else 1.0)
    run = await quick.start(
        delegation(),
        script(
            delegates("b", by="m1"),
            slow,
            delegates("w1"),
            works("w1", "the best so far"),
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


async def test_r25_thirty_workers_with_large_contexts(site: Installation) -> None:
    names = [f"w{number}" for number in range(30)]
    work = [
        {
            "worker": name,
            "instructions": f"Do the part {name}.",
            "inherit": ["poem"],
        }
        for name in names
    ]
    result = await site.run(
        delegation(
            context={"poem": "steel " * 35_000},
            delegation={"workers_per_iteration": 0},
            budget={"tokens": 0, "cost_usd": 0},
        ),
        script(
            {"when": {"role": "manager"}, "json": {"decision": "delegate", "delegations": work}},
            *(works(name) for name in names),
            completes(),
        ),
    )
    assert (result.outcome, result.spend.workers) == ("accepted", 30)
    await books_of_the_tree_agree(site, result)
    description = await site.handle(result.id).describe()
    assert description.status == WorkflowExecutionStatus.COMPLETED


async def test_a_manager_that_rolls_keeps_its_course(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    timing = Timing(heartbeat=4.0, roll_events=10)
    rounds = [
        part
        for number in range(4)
        for part in (
            delegates("w1", instructions=f"step {number}"),
            works("w1", f"result {number}", 0.3 + number * 0.15),
        )
    ]
    async with installation(tmp_path / "home", address, timing=timing) as site, site.worker():
        result = await site.run(delegation(), script(*rounds, completes()))
        assert result.outcome == "accepted"
        assert [record.index for record in await site.records(result.id)] == [1, 2, 3, 4, 5]
        ids = [f"{result.id}.w{number}-w1" for number in range(1, 5)]
        assert list(result.spend.by_child) == ids
        await books_of_the_tree_agree(site, result)
        description = await site.handle(result.id).describe()
        first = description.raw_description.workflow_execution_info.first_run_id
        assert description.run_id != first, "it did roll"


async def test_writers_work_on_copies_and_are_merged_in_order(
    site: Installation, tmp_path: Path
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    whole = sha256((folder / "a.txt").read_bytes()).hexdigest()

    def edits(worker: str, old: str, new: str) -> tuple[Reply, Reply]:
        change = call("fs.edit", path="a.txt", old=old, new=new, expected_hash=whole)
        return {**calls(change), "when": {"role": "worker", "worker": worker}}, works(worker)

    told = {"role": "manager", "contains": "w3 changed the same lines as others"}
    result = await site.run(
        delegation(tools={"access": "full", "allow": ["fs.*"]}, workspace=str(folder)),
        script(
            delegates("w1", "w2", "w3"),
            *edits("w1", "one", "ONE"),
            *edits("w2", "five", "FIVE"),
            *edits("w3", "one", "eins"),
            {**completes(), "when": told},
        ),
    )
    assert result.outcome == "accepted"
    patch = next(item.ref for item in result.artifacts if item.kind == "patch")
    text = await site.parts.stores.blobs.get_text(patch)
    assert "+ONE" in text and "+FIVE" in text and "eins" not in text
    assert (folder / "a.txt").read_text().startswith("one")


async def test_a_spent_budget_ends_with_the_best_and_a_last_word(site: Installation) -> None:
    last = {"role": "manager", "contains": "The budget is spent"}
    result = await site.run(
        delegation(budget={"model_calls": 2}),
        script(delegates("w1"), works("w1", "half of it"), {**completes("half"), "when": last}),
    )
    assert (result.outcome, result.reason) == ("out_of_budget", "model_calls")
    assert result.partial
    assert "half of it" in (result.output or "")
    await books_of_the_tree_agree(site, result)


async def test_a_failed_run_is_retried_with_its_course_and_its_spend(site: Installation) -> None:
    broken = {"when": {"role": "manager"}, "error": {"status": 400, "message": "no"}}
    told = {"role": "manager", "contains": "w1 found steel"}
    run = await site.start(
        delegation(),
        script(delegates("w1"), works("w1"), broken, {**completes(), "when": told}),
    )
    failed = await site.gateway.result(run)
    assert (failed.outcome, failed.reason) == ("failed", "model_error")
    await site.gateway.verb(run, Retry(by="t"))
    result = await site.gateway.result(run)
    assert result.outcome == "accepted"
    assert result.spend.workers == 1
    await books_of_the_tree_agree(site, result)


async def test_a_fork_goes_on_from_a_decision_with_children_of_its_own(site: Installation) -> None:
    told = {"role": "manager", "contains": "w1 found steel"}
    replies = ({**completes(), "when": told}, delegates("w1"), works("w1"))
    run = await site.start(delegation(), script(*replies))
    await site.gateway.result(run)
    spec = await site.gateway.fork_spec(run, 1)
    fork = await site.gateway.fork(run, 1, spec)
    result = await site.gateway.result(fork)
    assert (result.outcome, result.spend.workers) == ("accepted", 0)
    assert result.forked_from is not None and result.forked_from.run == run
