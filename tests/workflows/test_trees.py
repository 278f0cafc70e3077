"""Trees of runs on a real server: budgets, files, large contexts, rolls, retries and forks."""

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
from trees import DEAR, manages, sub

from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.run.messages import Retry
from perdure.domain.run.spec import Timing
from perdure.gateway.types import RunFilter


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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
@pytest.mark.parametrize(
    ("budget", "most"),
    [
        pytest.param({"tokens": 0, "cost_usd": 0, "model_calls": 52}, 1, id="calls for one left"),
        # A review reserves 1,024 tokens of output, 0.16 USD, so one goes at a time, beside a short
        # one. Each costs 0.0161 USD when it is settled, and what it held is there for the next.
        pytest.param({"tokens": 0, "cost_usd": "0.18"}, 11, id="money for one at a time"),
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


@pytest.mark.long
async def test_r25_thirty_workers_with_large_contexts(site: Installation) -> None:
    names = [f"w{number}" for number in range(30)]
    work = [
        {"worker": name, "instructions": f"Do the part {name}.", "inherit": ["poem"]}
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


@pytest.mark.long
async def test_a_manager_that_rolls_keeps_its_course(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    timing = Timing(roll_events=10)
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


@pytest.mark.long
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
        delegation(), script(delegates("w1"), works("w1"), broken, {**completes(), "when": told})
    )
    failed = await site.gateway.result(run)
    assert (failed.outcome, failed.reason) == ("failed", "model_error")
    await site.gateway.verb(run, Retry(by="t"))
    result = await site.gateway.result(run)
    assert result.outcome == "accepted"
    assert result.spend.workers == 1
    await books_of_the_tree_agree(site, result)


@pytest.mark.long
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
