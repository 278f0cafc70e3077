"""The delegation loop on a real server: each decision, what it leads to, and how it ends."""

from hashlib import sha256
from pathlib import Path

import pytest
from agent_runs import Reply, answer, call, calls, gate_of
from delegating import (
    books_of_the_tree_agree,
    completes,
    decides,
    delegates,
    delegation,
    script,
    works,
)
from installation import Installation
from waiting import eventually

from perdure.domain.run.events import Event


async def events(site: Installation, run: str) -> list[Event]:
    return [event async for event in site.gateway.events(run)]


def write(**more: object) -> Reply:
    return call("fs.write", path="bottle.json", **more)


async def test_workers_work_and_the_manager_completes(site: Installation) -> None:
    result = await site.run(
        delegation(),
        script(delegates("w1", "w2"), works("w1"), works("w2", "with a cork"), completes()),
    )
    assert (result.outcome, result.reason) == ("accepted", "completed")
    assert result.output == "A bottle of steel."
    assert (result.quality_met, result.partial) == (True, False)
    assert [record.decision for record in result.iterations] == ["continue", "accept"]
    assert result.iterations[0].score == 0.7
    assert "delegate: so" in (result.iterations[0].adaptation or "")
    assert (result.spend.workers, result.spend.model_calls) == (2, 4)
    assert sorted(result.spend.by_child) == [f"{result.id}.w1-w1", f"{result.id}.w2-w2"]
    types = [event.type for event in await events(site, result.id)]
    assert types.count("child_started") == types.count("child_finished") == 2
    await books_of_the_tree_agree(site, result)


async def test_the_manager_reads_one_line_of_each_worker(site: Installation) -> None:
    result = await site.run(
        delegation(),
        script(
            delegates("w1"),
            works("w1", "steel " * 300),
            {**completes(), "when": {"role": "manager", "contains": "w1 found steel"}},
        ),
    )
    assert result.outcome == "accepted"


@pytest.mark.long
async def test_a_plan_orders_the_work(site: Installation) -> None:
    plan = decides(
        "plan",
        subtasks=[
            {"id": "s1", "title": "look"},
            {"id": "s2", "title": "write", "depends_on": ["s1"]},
        ],
    )
    cycle = decides(
        "plan",
        subtasks=[
            {"id": "s1", "title": "look", "depends_on": ["s2"]},
            {"id": "s2", "title": "write", "depends_on": ["s1"]},
        ],
    )
    told = {"role": "manager", "contains": "wait for each other"}
    done = {"role": "manager", "contains": "s1 [done"}
    result = await site.run(
        delegation(),
        script(
            cycle,
            {**plan, "when": told},
            delegates("w1", subtask="s1"),
            works("w1"),
            {**completes(), "when": done},
        ),
    )
    assert result.outcome == "accepted"
    status = await site.status(result.id)
    assert [line.split("]")[0] for line in status.plan] == ["s1 [done: w1 found steel", "s2 [ready"]


async def test_hypotheses_are_tested_by_light_workers(site: Installation) -> None:
    diagnose = decides(
        "diagnose",
        hypotheses=[
            {"id": "h1", "statement": "it is steel", "test": "look"},
            {"id": "h2", "statement": "it is glass", "test": "look"},
        ],
    )
    result = await site.run(
        delegation(),
        script(
            diagnose,
            works("h1", "yes", 0.9),
            works("h2", "no", 0.2),
            {**completes(), "when": {"role": "manager", "contains": "confirmed: h1"}},
        ),
    )
    assert result.outcome == "accepted"
    assert result.spend.workers == 2
    assert result.iterations[0].score is None, "a diagnosis is no reading"


@pytest.mark.parametrize(
    ("replies", "ending"),
    [
        ([decides("fail", why="no bottle")], ("failed", "gave_up")),
        (
            [delegates("w1"), works("w1"), decides("fail", why="no more")],
            ("best_effort", "gave_up"),
        ),
        (
            [{"when": {"role": "manager"}, "text": "Hm.", "times": 5}],
            ("failed", "manager_unreadable"),
        ),
    ],
    ids=["nothing to show", "something to show", "five unreadable replies"],
)
async def test_giving_up(
    site: Installation, replies: list[dict[str, object]], ending: tuple[str, str]
) -> None:
    result = await site.run(delegation(), script(*replies))
    assert (result.outcome, result.reason) == ending
    await books_of_the_tree_agree(site, result)


@pytest.mark.long
async def test_a_decision_in_words_is_read_after_it_was_asked_again(site: Installation) -> None:
    again = {
        "when": {"role": "manager", "contains": "could not be read"},
        "text": 'So:\n```json\n{"decision": "finished", "report": "a bottle of steel"}\n```',
    }
    result = await site.run(
        delegation(), script({"when": {"role": "manager"}, "text": "Hm."}, again)
    )
    assert result.outcome == "accepted"
    assert "steel" in (result.output or "")


@pytest.mark.long
async def test_the_permitted_decisions_are_used_up(site: Installation) -> None:
    result = await site.run(
        delegation(delegation={"max_iterations": 2}),
        script(
            delegates("w1", instructions="one"), works("w1", "first", 0.6),
            delegates("w2", instructions="two"), works("w2", "second", 0.4),
        ),
    )  # fmt: skip
    assert (result.outcome, result.reason, result.partial) == (
        "best_effort",
        "max_iterations",
        True,
    )
    assert result.best is not None
    assert (result.best.iteration, result.best.score) == (1, 0.6)
    assert "first" in (result.output or ""), "the best, not the last"


@pytest.mark.long
async def test_more_workers_than_an_iteration_takes_are_deferred(site: Installation) -> None:
    names = tuple(f"w{number}" for number in range(1, 9))
    result = await site.run(
        delegation(),
        script(
            delegates(*names),
            *(works(name) for name in names[:6]),
            {**completes(), "when": {"role": "manager", "contains": "Deferred"}},
        ),
    )
    assert (result.outcome, result.spend.workers) == ("accepted", 6)


async def test_the_same_poor_work_is_not_done_twice(site: Installation) -> None:
    told = {"role": "manager", "contains": "The same work was done in iteration 1"}
    result = await site.run(
        delegation(),
        script(
            delegates("w1"), works("w1", "bad", 0.1), delegates("w1"), {**completes(), "when": told}
        ),
    )
    assert (result.outcome, result.spend.workers) == ("accepted", 1)


async def test_a_question_to_a_person_and_its_answer(site: Installation) -> None:
    told = {"role": "manager", "contains": "Answer: blue"}
    run = await site.start(
        delegation(),
        script(
            decides("escalate", question="Which colour?", choices=["red", "blue"]),
            {**completes("A blue bottle."), "when": told},
        ),
    )
    await eventually(lambda: gate_of(site, run))
    gate = await gate_of(site, run)
    assert gate is not None
    assert gate.choices == ("red", "blue", "accept", "stop")
    await answer(site, run, gate, "blue")
    result = await site.gateway.result(run)
    assert (result.outcome, result.output) == ("accepted", "A blue bottle.")


async def test_a_reviewer_sends_work_back_once(site: Installation) -> None:
    review = {"when": {"role": "critic"}}
    bad = {"score": 0.3, "defects": [
        {"category": "wrong", "title": "It is not glass.", "fix": "Say steel.", "critical": True}
    ]}  # fmt: skip
    repaired = {"when": {"role": "worker", "worker": "w1_repair", "contains": "It is not glass."}}
    result = await site.run(
        delegation(delegation={"critique": {"enabled": True}}),
        script(
            delegates("w1", acceptance="It names the material."),
            works("w1", "glass"),
            {**review, "json": bad},
            {**works("w1_repair", "steel", 0.9), **repaired},
            {**review, "json": {"score": 0.9, "defects": []}},
            completes(),
        ),
    )
    assert result.outcome == "accepted"
    assert result.iterations[0].score == 0.9
    assert "0.90" in result.explanation, "the reviewers' mean is the score"
    await books_of_the_tree_agree(site, result)


@pytest.mark.long
async def test_a_worse_repair_is_discarded(site: Installation) -> None:
    review = {"when": {"role": "critic"}}
    defect = {"category": "wrong", "title": "No.", "fix": "", "critical": True}
    result = await site.run(
        delegation(delegation={"critique": {"repairs": 1}, "max_iterations": 1}),
        script(
            delegates("w1", acceptance="It names the material."),
            works("w1", "steel", 0.8),
            {**review, "json": {"score": 0.7, "defects": [defect]}},
            works("w1_repair", "wood", 0.2),
            {**review, "json": {"score": 0.4, "defects": [defect]}},
        ),
    )
    assert result.iterations[0].score == 0.8


@pytest.mark.long
async def test_a_completion_passes_its_gates(site: Installation, tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    half = sha256(b"{").hexdigest()
    written = calls(write(content='{"steel": true}', expected_hash=half))
    broken = calls(write(content="{", expected_hash="absent"))
    worker = {"role": "worker", "worker": "w1"}
    mend = {"role": "worker", "worker": "w2"}
    result = await site.run(
        delegation(
            tools={"access": "full", "allow": ["fs.*"]},
            workspace=str(folder),
            delegation={"deliverables": ["bottle.json"], "output_schema": {"type": "object"}},
        ),
        script(
            completes("no object"),
            {**completes(), "json": {"decision": "complete", "final_result": {"a": 1}},
             "when": {"role": "manager", "contains": "output_contract"}},
            {**delegates("w1"), "when": {"role": "manager", "contains": "bottle.json is missing"}},
            {**broken, "when": worker},
            works("w1", "half", 0.4),
            {**completes(), "json": {"decision": "complete", "final_result": {"a": 2}}},
            {**delegates("w2"), "when": {"role": "manager", "contains": "does not parse"}},
            {**written, "when": mend},
            works("w2"),
            {**completes(), "json": {"decision": "complete", "final_result": {"a": 3}}},
        ),
    )  # fmt: skip
    assert (result.outcome, result.output) == ("accepted", '{"a": 3}')
    patch = next(item.ref for item in result.artifacts if item.kind == "patch")
    assert '+{"steel": true}' in await site.parts.stores.blobs.get_text(patch)
    assert not (folder / "bottle.json").exists(), "a run never works in the user's folder"


async def test_the_breaker_repairs_once_and_then_ends(site: Installation) -> None:
    empty = {**completes(), "json": {"decision": "complete", "final_result": "TODO: write it"}}
    result = await site.run(
        delegation(),
        script(
            empty, empty,
            works("completion_repair", "I could not", 0.2),
            empty, empty,
        ),
    )  # fmt: skip
    assert (result.outcome, result.reason) == ("best_effort", "completion_rejected")
    assert result.spend.workers == 1
    assert result.partial


async def test_the_repair_is_told_what_later_gates_would_have_refused(site: Installation) -> None:
    repairs = "completion_repair"
    told = {"role": "worker", "worker": repairs, "contains": "bottle.json is missing"}
    repair = {**works(repairs, "I could not", 0.2), "when": told}
    result = await site.run(
        delegation(
            delegation={"deliverables": ["bottle.json"], "output_schema": {"type": "object"}}
        ),
        script(*(completes("no object"),) * 2, repair, *(completes("no"),) * 2),
    )
    assert (result.outcome, result.reason) == ("best_effort", "completion_rejected")
    below = (await site.status(result.id)).runs_below
    assert [child.outcome for child in below] == ["accepted"], "the repair was told otherwise"


async def test_success_criteria_are_reviewed(site: Installation) -> None:
    criteria = {"when": {"role": "critic"}}
    unmet = {"criteria": [{"number": 1, "met": False, "missing": "no cork"}]}
    met = {"criteria": [{"number": 1, "met": True, "missing": ""}]}
    told = {"role": "manager", "contains": "no cork"}
    result = await site.run(
        delegation(delegation={"success_criteria": ["It has a cork."]}),
        script(
            completes(), {**criteria, "json": unmet},
            {**completes("With a cork."), "when": told}, {**criteria, "json": met},
        ),
    )  # fmt: skip
    assert (result.outcome, result.output) == ("accepted", "With a cork.")


@pytest.mark.long
async def test_stuck_work_switches_its_strategy_and_ends_stalled(site: Installation) -> None:
    said = [
        part
        for number in range(1, 8)
        for part in (delegates("w1", instructions=f"try {number}"), works("w1", "same", 0.3))
    ]
    result = await site.run(delegation(delegation={"strategies": ["simplify"]}), script(*said))
    assert (result.outcome, result.reason) in {
        ("best_effort", "stalled"),
        ("best_effort", "converged"),
    }
    switched = [e for e in await events(site, result.id) if e.type == "strategy_switched"]
    assert [event.data["strategy"] for event in switched] == ["simplify"]
    assert result.iteration_count < 8


async def test_inputs_are_handed_on_by_name(site: Installation) -> None:
    poem = "steel and cork " * 500
    result = await site.run(
        delegation(context={"poem": poem, "budget": "1"}),
        script(
            {**delegates("w1", inherit=["poem", "budget"]),
             "when": {"role": "manager", "contains": "more characters; `inherit` hands it on"}},
            {**works("w1"), "when": {"role": "worker", "worker": "w1", "contains": poem.strip()}},
            completes(),
        ),
    )  # fmt: skip
    assert result.outcome == "accepted"


async def test_a_run_without_a_result_does_not_speak_of_one(site: Installation) -> None:
    task = {"id": "a", "title": "Look", "depends_on": [], "acceptance": ""}
    result = await site.run(
        delegation(delegation={"max_iterations": 1}), script(decides("plan", subtasks=[task]))
    )
    assert (result.outcome, result.best, result.output) == ("best_effort", None, None)
    assert "there is nothing to show yet" in result.explanation


async def test_a_smoke_test_that_may_not_run_is_refused_before_a_model_is_asked(
    site: Installation,
) -> None:
    result = await site.run(
        delegation(delegation={"smoke_test": ["make", "test"]}), script(completes())
    )
    assert (result.outcome, result.reason) == ("failed", "invalid_input")
    assert "delegation.smoke_test: make may not run on this worker" in result.explanation
    assert "PERDURE_ALLOW_COMMANDS" in result.explanation
    assert result.spend.model_calls == 0
