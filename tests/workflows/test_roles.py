"""The role loop on a real server: every way it ends, and what its stages are told."""

from pathlib import Path

import pytest
from installation import Installation, installation
from invariants import executions
from stages import open_gate, reached, told
from teams import APPROVED, PAIR, REVIEWED, asks, rejected, says, script, stage, task, team
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.names import learn_run_id
from perdure.domain.llm.usage import Usage
from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.run.messages import Answer, Retry, Stop
from perdure.domain.run.spec import Timing
from perdure.domain.specs import RUN_SPEC


async def test_a_team_works_until_the_review_approves(site: Installation) -> None:
    replies = [
        says("plan", "the plan", times=2),
        says("coder", "first draft"),
        says("reviewer", rejected("no tests")),
        says("coder", "second draft"),
        says("reviewer", APPROVED),
    ]
    result = await site.run(task(), script(replies))
    assert (result.outcome, result.reason) == ("accepted", "approved")
    assert result.quality_met
    assert result.output == "second draft"
    records = await site.records(result.id)
    assert [record.index for record in records] == [1, 2]
    assert [record.decision for record in records] == ["continue", "accept"]
    assert [stage.name for stage in records[0].stages] == ["plan", "coder", "reviewer"]
    assert {stage.status for stage in records[1].stages} == {"completed"}
    lines = [stage.line for record in records for stage in record.stages]
    assert lines == [
        *("the plan", "first draft", "rejected: not yet"),
        *("the plan", "second draft", "approved: fine"),
    ]
    assert [verdict.kind for record in records for verdict in record.verdicts] == [
        "rejected",
        "approved",
    ]
    assert records[0].findings[0]["title"] == "no tests"
    status = await site.status(result.id)
    assert [(one.iteration, one.stage, one.verdict, one.summary) for one in status.stages] == [
        *((1, "plan", None, "the plan"), (1, "coder", None, "first draft")),
        (1, "reviewer", "rejected", "not yet"),
        *((2, "plan", None, "the plan"), (2, "coder", None, "second draft")),
        (2, "reviewer", "approved", "fine"),
    ]
    texts = [one.output_ref for one in status.stages]
    assert texts == [one.output_ref for record in records for one in record.stages]
    assert all(texts)
    assert result.spend.model_calls == 6
    assert result.spend.tokens == 6 * 120


async def test_a_shell_that_the_worker_cannot_use_is_refused_before_a_token_is_spent(
    site: Installation,
) -> None:
    pair = LoopSnapshot.model_validate(team(*PAIR))
    definition = pair.definition.model_copy(update={"requires": ("shell",)})
    needy = pair.model_copy(update={"definition": definition}).model_dump(mode="json")
    result = await site.run(task(needy), script([says("coder", "draft")]))
    assert result.outcome == "failed"
    assert "team.requires: shell cannot be used on this worker" in f"{result.error}"
    assert "PERDURE_ALLOW_COMMANDS" in f"{result.error}"
    assert result.spend.model_calls == 0


async def test_an_approval_on_the_last_permitted_round_counts(site: Installation) -> None:
    replies = [
        says("coder", "draft", times=2),
        says("reviewer", rejected("slow")),
        says("reviewer", APPROVED),
    ]
    pair = team(*PAIR, condition={**REVIEWED, "max_review_rounds": 2})
    result = await site.run(task(pair), script(replies))
    assert (result.outcome, result.reason, result.iteration_count) == ("accepted", "approved", 2)


async def test_an_empty_review_is_unclear_and_the_work_is_reviewed_anew(site: Installation) -> None:
    replies = [
        says("coder", "one"),
        says("reviewer", "", times=3),  # also after a nudge, and when asked for the verdict
        says("coder", "two"),
        says("reviewer", APPROVED),
    ]
    result = await site.run(task(team(*PAIR)), script(replies))
    assert (result.outcome, result.reason, result.output) == ("accepted", "approved", "two")
    empty, approved = [record.verdicts[0] for record in await site.records(result.id)]
    assert (empty.kind, empty.asked_again) == ("unclear", True)
    assert approved.kind == "approved"


async def test_reviews_that_are_always_empty_end_without_an_approval(site: Installation) -> None:
    replies = [says("coder", "draft", times=3), says("reviewer", "", times=9)]
    result = await site.run(task(team(*PAIR)), script(replies))
    assert result.outcome == "best_effort"
    assert not result.quality_met
    assert (result.output, result.iteration_count) == ("draft", 3)


@pytest.mark.long
async def test_a_manual_loop_ends_by_stop_alone(site: Installation) -> None:
    spec = task(team(stage("coder"), condition={"type": "manual"}))
    replies = [says("coder", "one"), says("coder", "two"), says("coder", "three", delay_s=60)]
    run = await site.start(spec, script(replies))
    await eventually(lambda: reached(site, run, iteration=3))
    await site.gateway.verb(run, Stop(by="t", mode="now"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("stopped", "stopped")
    assert (result.output, result.iteration_count) == ("two", 3)
    assert not result.partial


async def test_a_budget_that_is_spent_ends_the_loop_with_the_best(site: Installation) -> None:
    replies = [says("coder", "draft", times=9), says("reviewer", rejected("a"), times=9)]
    spec = task(team(*PAIR), budget={"model_calls": 3})
    result = await site.run(spec, script(replies))
    assert (result.outcome, result.reason) == ("out_of_budget", "model_calls")
    assert result.output in {"draft", "looked"}
    assert result.spend.model_calls == 3


async def test_a_failed_stage_fails_the_run_and_is_retried_alone(site: Installation) -> None:
    broken = {"error": {"status": 401, "message": "no such key"}, "when": {"role": "reviewer"}}
    replies = [says("coder", "draft"), broken, says("reviewer", APPROVED)]
    run = await site.start(task(team(*PAIR)), script(replies))
    failed = await site.gateway.result(run)
    assert (failed.outcome, failed.reason) == ("failed", "stage_failed")
    assert failed.output == "draft"
    assert [stage.status for stage in failed.iterations[0].stages] == ["completed", "failed"]
    shown = (await site.status(run)).stages
    assert [(one.stage, one.status) for one in shown] == [
        ("coder", "completed"),
        ("reviewer", "failed"),
    ]
    assert shown[1].summary

    await site.gateway.verb(run, Retry(by="t", note="mind the gap", request_id="again"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason, result.iteration_count) == ("accepted", "approved", 1)
    (record,) = await site.records(run)
    assert [(one.status, one.attempt) for one in record.stages] == [
        ("completed", 1),
        ("completed", 2),
    ]
    rows = await site.parts.stores.journal.rows(run)
    assert [row.role for row in rows] == ["coder", "reviewer", "reviewer"]
    assert "mind the gap" in await told(site, record.stages[1].transcript)


async def test_other_findings_are_no_rework_of_the_same(site: Installation) -> None:
    findings = ["no tests", "slow start", "typo in the title"]
    replies = [
        says("coder", "draft", times=9),
        *(says("reviewer", rejected(title)) for title in findings),
    ]
    result = await site.run(task(team(*PAIR)), script(replies))
    assert (result.outcome, result.reason) == ("best_effort", "max_iterations")


async def test_stages_are_told_what_came_before(site: Installation) -> None:
    long = "x" * 20_000
    replies = [
        says("plan", long, times=2),
        says("coder", "first draft"),
        says("reviewer", rejected("no tests")),
        says("coder", "second draft"),
        says("reviewer", APPROVED),
    ]
    run = await site.start(task(), script(replies))
    result = await site.gateway.result(run)
    first, second = result.iterations
    coder = await told(site, first.stages[1].transcript)
    assert "artifact.read" in coder
    assert long not in coder
    assert "iteration 1 of at most 3, stage 2 of 3" in coder
    plan, rework = [await told(site, one.transcript) for one in second.stages[:2]]
    assert "iteration 1, coder (completed): first draft" in plan
    assert "no tests: mend no tests" in rework
    kept = await site.parts.stores.artifacts.artifacts_of_run(run)
    assert [item.kind for item in kept] == ["loop_output"] * 6
    assert await site.parts.stores.blobs.get_text(kept[0].ref) == long


@pytest.mark.long
async def test_a_roll_in_the_middle_of_a_stage_loses_nothing(
    server: WorkflowEnvironment, tmp_path: Path
) -> None:
    address = server.client.service_client.config.target_host
    timing = Timing(roll_events=12)
    replies = [
        *(asks("coder", "probe.echo", {"text": f"t{number}"}) for number in range(4)),
        says("coder", "NEEDS_CONTEXT: Which cache?"),
        says("coder", "draft", times=2),
        says("reviewer", rejected("a")),
        says("reviewer", APPROVED),
    ]
    pair = team(stage("coder", access="readonly"), stage("reviewer"))
    async with (
        installation(tmp_path / "home", address, timing=timing) as made,
        made.worker(plugins=("probe_tools",)),
    ):
        run = await made.start(task(pair), script(replies))
        gate = await open_gate(made, run)
        await made.gateway.verb(run, Answer(by="t", gate=gate.id, text="Redis"))
        result = await made.gateway.result(run)
        assert (result.outcome, result.iteration_count) == ("accepted", 2)
        assert result.tools_used == {"probe.echo": 4}
        assert result.spend.model_calls == 9
        assert len(await executions(made, run)) > 2
        rows = await made.parts.stores.journal.rows(run)
        assert sum((row.usage for row in rows), Usage()) == result.spend.usage


@pytest.mark.long
async def test_a_run_can_be_forked_and_learned_from(site: Installation) -> None:
    replies = [
        says("coder", "first"),
        says("reviewer", rejected("no tests", "slow")),
        says("coder", "second"),
        says("reviewer", rejected("no tests", "typo")),
        says("coder", "third"),
        says("reviewer", APPROVED),
        says("learner", {"learnings": [{"kind": "heuristic", "text": "test", "confidence": 0.6}]}),
    ]
    spec = {**task(team(*PAIR)), "learn": True}
    run = await site.start(spec, script(replies))
    result = await site.gateway.result(run)
    assert (result.outcome, result.learnings_started) == ("accepted", True)
    learned = await site.gateway.result(learn_run_id(run))
    assert learned.outcome == "accepted", learned.explanation

    again = [says("coder", "another second"), says("reviewer", APPROVED)]
    models = {"executor": await site.script(script(again))}
    changed = RUN_SPEC.validate_python({**task(team(*PAIR)), "models": models})
    fork = await site.gateway.fork(run, 1, changed)
    forked = await site.gateway.result(fork)
    assert (forked.outcome, forked.output, forked.iteration_count) == (
        "accepted",
        "another second",
        2,
    )
    assert forked.spend.model_calls == 2
    assert "no tests" in await told(site, forked.iterations[1].stages[0].transcript)
