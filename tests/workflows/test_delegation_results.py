"""What a manager's run hands over when nobody completed it: whole, the best, and nothing twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_runs import Reply, gate_of
from delegating import (
    books_of_the_tree_agree,
    completes,
    decides,
    delegates,
    delegation,
    script,
    works,
)
from installation import Installation, eventually, installation
from temporalio.testing import WorkflowEnvironment

from perdure.domain.run.messages import Amend, Answer, Resume
from perdure.domain.run.spec import Timing

LONG = "steel and cork; " * 400
SMALL = {"usage": {"input_tokens": 100, "output_tokens": 50}}


def review(score: float, *, critical: bool = False, **when: str) -> Reply:
    defect = {"category": "wrong", "title": "No.", "fix": "Mend it.", "critical": True}
    return {
        "when": {"role": "critic", **when},
        "json": {"score": score, "defects": [defect] if critical else []},
    }


@pytest.fixture
async def rolling(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Installation]:
    """An installation whose runs continue as new after a few dozen messages."""
    address = server.client.service_client.config.target_host
    timing = Timing(roll_messages=60)
    async with installation(tmp_path / "rolling", address, timing=timing) as made, made.worker():
        yield made


async def test_a_long_result_is_handed_over_whole(site: Installation) -> None:
    result = await site.run(
        delegation(delegation={"max_iterations": 1}), script(delegates("w1"), works("w1", LONG))
    )
    assert (result.reason, result.output) == ("max_iterations", LONG)


async def test_the_results_of_several_workers_stand_under_their_names(site: Installation) -> None:
    result = await site.run(
        delegation(delegation={"max_iterations": 1}),
        script(delegates("w1", "w2"), works("w1", "steel"), works("w2", {"with": "cork"})),
    )
    assert result.output == '## w1\n\nsteel\n\n## w2\n\n{\n "with": "cork"\n}'
    assert result.iterations[0].output_ref == result.output_ref


@pytest.mark.long
async def test_a_discarded_repair_is_no_part_of_the_result(site: Installation) -> None:
    result = await site.run(
        delegation(delegation={"critique": {"enabled": True, "repairs": 1}, "max_iterations": 1}),
        script(
            delegates("w1", "w2", acceptance="It names the material."),
            works("w1", "steel"), works("w2", "cork"),
            review(0.6, critical=True, worker="w1"), review(0.9, worker="w2"),
            works("w1_repair", "wood"), review(0.2, critical=True, worker="w1_repair"),
        ),
    )  # fmt: skip
    assert result.output == "## w1\n\nsteel\n\n## w2\n\ncork"
    await books_of_the_tree_agree(site, result)


async def test_a_refused_completion_is_no_good_result_whatever_its_manager_thinks(
    site: Installation,
) -> None:
    result = await site.run(
        delegation(delegation={"deliverables": ["a.md"], "completion_rejections": 1}),
        script(completes("I am sure."), works("completion_repair"), completes("I am sure.")),
    )
    assert (result.outcome, result.reason) == ("best_effort", "completion_rejected")
    assert result.quality_met is False


@pytest.mark.long
async def test_work_is_not_done_twice_while_a_person_is_asked_for_money(
    rolling: Installation,
) -> None:
    """The reviewer's call does not fit: people are asked in the middle of an iteration."""
    run = await rolling.start(
        delegation(
            budget={"model_calls": 2, "on_exhausted": "ask"},
            delegation={"critique": {"enabled": True}},
        ),
        script(
            delegates("w1", acceptance="It names the material."),
            works("w1"),
            review(0.9),
            completes(),
        ),
    )
    await eventually(lambda: gate_of(rolling, run))
    gate, handle = await gate_of(rolling, run), rolling.handle(run)
    assert gate is not None
    assert gate.kind == "budget"
    await asyncio.gather(*(handle.signal("resume", Resume()) for _ in range(80)))
    await rolling.gateway.verb(run, Amend(budget={"model_calls": 20}, by="ada"))
    await rolling.gateway.verb(run, Answer(gate=gate.id, choice="raise", by="ada"))
    result = await rolling.gateway.result(run)
    assert (result.outcome, result.spend.workers, result.iteration_count) == ("accepted", 1, 2)
    await books_of_the_tree_agree(rolling, result)


async def test_a_manager_that_waits_for_money_decides_once(rolling: Installation) -> None:
    """The manager's own call does not fit, and the run continues as new while people are asked."""
    run = await rolling.start(
        delegation(
            budget={"tokens": 500, "iterations": 1, "on_exhausted": "ask"},
            delegation={"max_iterations": 1},
        ),
        script(completes("steel")),
    )
    await eventually(lambda: gate_of(rolling, run))
    gate, handle = await gate_of(rolling, run), rolling.handle(run)
    assert gate is not None
    first = (await handle.describe()).run_id
    await asyncio.gather(*(handle.signal("resume", Resume()) for _ in range(80)))

    async def rolled() -> bool:
        return (await handle.describe()).run_id != first

    await eventually(rolled)
    await rolling.gateway.verb(run, Amend(budget={"tokens": 200_000}, by="ada"))
    await rolling.gateway.verb(run, Answer(gate=gate.id, choice="raise", by="ada"))
    result = await rolling.gateway.result(run)
    assert (result.outcome, result.iteration_count) == ("accepted", 1)
    assert result.iterations[0].index == 1


async def test_what_nobody_can_read_of_a_worker_is_told(site: Installation) -> None:
    tool = {"name": "text.count", "code": "x", "schema": "{}", "examples": '["no example"]'}
    result = await site.run(
        delegation(),
        script(
            delegates("w1"),
            works("w1", confidence="sure enough", tools_needed=[tool]),  # type: ignore[arg-type]
            {**completes(), "when": {"role": "manager", "contains": "counts as not done"}},
        ),
    )
    assert result.outcome == "accepted"
    refused = [e async for e in site.gateway.events(result.id) if e.type == "tool_refused"]
    assert [event.data["stage"] for event in refused] == ["draft"]


async def test_a_first_sign_of_a_stall_is_told(site: Installation) -> None:
    texts = ("A bottle of steel.", "Half a litre fits.", "Nobody knows who made it.")
    work = [
        part
        for number, text in enumerate(texts)
        for part in (delegates(f"w{number}"), works(f"w{number}", text, 0.3))
    ]
    told = {"when": {"role": "manager", "contains": "The work may be stuck"}}
    result = await site.run(delegation(), script(*work, {**completes(), **told}))
    assert (result.outcome, result.iteration_count) == ("accepted", 4)
    warned = [e async for e in site.gateway.events(result.id) if e.type == "stall_warned"]
    assert [event.data["why"] for event in warned] == ["confidence changed by 0 over 3 delegations"]


async def test_what_a_manager_was_shown_and_said_can_be_read(site: Installation) -> None:
    said = script(delegates("w1"), works("w1", "A bottle."), completes("Bottle, 0.5 l."))
    result = await site.run(delegation(), said)
    records = await site.gateway.records(result.id)
    heads = [record.transcript for record in records]
    shown = [await site.parts.stores.transcripts.load(head) for head in heads if head]
    assert [[message.role for message in one] for one in shown] == [["user", "assistant"]] * 2
    assert "Nothing was done yet." in shown[0][0].text
    assert "w1, confidence" in shown[1][0].text and "Bottle, 0.5 l." in shown[1][1].text
    kept = await site.parts.stores.artifacts.artifacts_of_run(result.id)
    told = [
        (one.kind, one.iteration, await site.parts.stores.blobs.get_text(one.ref)) for one in kept
    ]
    assert [one[:2] for one in told] == [("rolling_summary", 1), ("rolling_summary", 2)]
    assert told[0][2] == "Nothing was done yet."
    assert told[1][2].startswith("Iteration 1, confidence") and told[1][2] in shown[1][0].text


PLANS = decides("plan", subtasks=[{"id": "s1", "title": "Measure it."}])


@pytest.mark.parametrize(
    ("replies", "said", "shown_next"),
    [
        pytest.param([PLANS, completes()], "Measure it.", "s1 [ready]", id="a plan"),
        pytest.param(
            [PLANS, PLANS, delegates("w1", subtask="s1"), works("w1"), completes()],
            "Measure it.", "s1 [ready]", id="a plan that was made twice",
        ),
        pytest.param(
            [delegates("w1"), works("w1", {"glass": "none"}), completes()],
            "Do the part w1.", "w1 found {'glass': 'none'}", id="work",
        ),
        pytest.param(
            [delegates("w1"), works("w1", "", 0.0, findings=[], defects=["No bottle."]),
             completes()],
            "Do the part w1.", "w1, confidence 0.00: ", id="work that failed",
        ),
        pytest.param(
            [decides("complete", final_result="", confidence=0.9), completes()],
            "complete", "neither a final result", id="a refused completion",
        ),
    ],
)  # fmt: skip
async def test_each_iteration_of_a_manager_can_be_read(
    site: Installation, replies: list[Reply], said: str, shown_next: str
) -> None:
    result = await site.run(delegation(), script(*replies))
    first, second, *_ = await site.gateway.records(result.id)
    heads = [record.transcript or "" for record in (first, second)]
    read = [await site.parts.stores.transcripts.load(head) for head in heads]
    assert said in read[0][-1].text
    assert shown_next in read[1][0].text


async def test_a_manager_below_can_be_read_by_itself(site: Installation) -> None:
    result = await site.run(
        delegation(),
        script(
            delegates("w1", by="m1"),
            completes("All of steel.", by="m1"),
            delegates("m1", sub_manager=True),
            works("w1", "steel"),
            completes(),
        ),
    )
    (below,) = [run for run in result.spend.by_child if run.endswith("m1")]
    records = await site.gateway.records(below)
    read = [await site.parts.stores.transcripts.load(one.transcript or "") for one in records]
    assert "Do the part m1." in read[0][0].text
    assert "w1 found steel" in read[1][0].text and "All of steel." in read[1][-1].text


async def test_an_unreadable_reply_is_read_beside_the_question(site: Installation) -> None:
    unclear = {"when": {"role": "manager"}, "text": "I would rather not say."}
    result = await site.run(
        delegation(), script(unclear, delegates("w1"), works("w1"), completes())
    )
    first, *_ = await site.gateway.records(result.id)
    shown = await site.parts.stores.transcripts.load(first.transcript or "")
    assert "Your last reply could not be read" in shown[0].text
    kept = await site.parts.stores.artifacts.artifacts_of_run(result.id)
    assert [one.id for one in kept] == [f"{result.id}-{n}-summary" for n in (1, 2)]


async def test_a_manager_that_was_cut_short_did_not_do_its_subtask(site: Installation) -> None:
    plan = decides("plan", subtasks=[{"id": "s1", "title": "Measure it."}])
    result = await site.run(
        delegation(budget={"model_calls": 12, "tokens": 1_000_000}),
        script(
            *(delegates(f"w{n}", by="m1") for n in range(9)),
            *(works(f"w{n}", f"part {n}", 0.6 + n / 100) for n in range(9)),
            plan,
            delegates("m1", subtask="s1", sub_manager=True, budget_share=0.4),
            completes(),
        ),
    )
    below = await site.gateway.result(next(iter(result.spend.by_child)))
    assert (below.outcome, below.reason) == ("out_of_budget", "model_calls")
    assert "part" in (below.output or "")
    status = await site.status(result.id)
    assert [line[:11] for line in status.plan] == ["s1 [failed:"]


async def test_a_long_text_is_told_with_a_mark_where_it_was_cut(site: Installation) -> None:
    why = f"{'because ' * 60}so."
    work = [{"worker": "w1", "instructions": "Do it."}]
    result = await site.run(
        delegation(),
        script(decides("delegate", reason=why, delegations=work), works("w1"), completes()),
    )
    events = [event async for event in site.gateway.events(result.id)]
    (told, *_) = [event.data["why"] for event in events if event.type == "decided"]
    assert isinstance(told, str)
    assert len(told) <= 300 and told.endswith("…") and why.startswith(told[:-1])
