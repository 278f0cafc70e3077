"""People and role loops: questions of stages, pauses, escalations, and runs taken up again."""

import pytest
from holding import HELD, Holding
from installation import Installation
from stages import at_stage, open_gate, told
from teams import APPROVED, PAIR, REVIEWED, asks, rejected, says, script, stage, task, team
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import AddInput, Amend, Answer, Escalate, Pause, Resume, Retry
from perdure.domain.turns.guidance import SAID_SINCE


async def test_a_question_waits_for_an_answer_in_the_same_conversation(site: Installation) -> None:
    replies = [
        says("coder", "NEEDS_CONTEXT: Which cache?"),
        says("coder", "a Redis cache"),
        says("reviewer", APPROVED),
    ]
    run = await site.start(task(team(*PAIR)), script(replies))
    gate = await open_gate(site, run)
    assert gate.kind == "question"
    assert "Which cache?" in gate.prompt
    await site.gateway.verb(run, Answer(by="t", gate=gate.id, text="Redis"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.output) == ("accepted", "a Redis cache")
    said = await told(site, result.iterations[0].stages[0].transcript)
    assert "Which cache?" in said
    assert said.count("answered your question: Redis") == 1


async def test_a_blocked_stage_begins_anew_with_the_answer_or_ends(site: Installation) -> None:
    replies = [says("coder", "BLOCKED: no access"), says("coder", "BLOCKED: still none")]
    run = await site.start(task(team(*PAIR)), script(replies))
    gate = await open_gate(site, run)
    assert gate.kind == "blocked"
    with pytest.raises(NotAllowed, match="needs retry, end; your words go beside it"):
        await site.gateway.verb(run, Answer(by="t", gate=gate.id, text="access is there"))
    await site.handle(run).signal("answer", {"gate": gate.id, "text": "access is there"})
    await site.gateway.verb(
        run, Answer(by="t", gate=gate.id, choice="retry", text="access is there")
    )
    second = await open_gate(site, run, after=gate.id)
    await site.gateway.verb(run, Answer(by="t", gate=second.id, choice="end"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("blocked", "blocked")
    (record,) = await site.records(run)
    assert [(one.status, one.attempt) for one in record.stages] == [("blocked", 2)]
    assert "access is there" in await told(site, record.stages[0].transcript)


async def test_a_stage_that_must_decide_is_told_so(site: Installation) -> None:
    replies = [
        says("coder", "NEEDS_CONTEXT: Which cache?"),
        says("coder", "Redis, assumed"),
        says("reviewer", APPROVED),
    ]
    pair = team(stage("coder", on_question="default"), stage("reviewer"))
    result = await site.run(task(pair), script(replies))
    assert (result.outcome, result.output) == ("accepted", "Redis, assumed")
    assert "Nobody can be asked" in await told(site, result.iterations[0].stages[0].transcript)


@pytest.mark.long
async def test_the_same_findings_again_ask_a_person(site: Installation) -> None:
    replies = [
        says("coder", "draft", times=9),
        says("reviewer", rejected("no tests for the parser"), times=3),
        says("reviewer", APPROVED),
    ]
    spec = task(team(*PAIR, condition={**REVIEWED, "max_review_rounds": 9}))
    run = await site.start(spec, script(replies))
    gate = await open_gate(site, run)
    assert gate.kind == "blocked"
    assert "no tests for the parser" in gate.prompt
    await site.gateway.verb(
        run, Answer(by="t", gate=gate.id, choice="retry", text="the parser is in lib/")
    )
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason, result.iteration_count) == ("accepted", "approved", 4)
    last = (await site.records(run))[-1]
    assert "the parser is in lib/" in await told(site, last.stages[0].transcript)


async def test_rework_that_nobody_takes_further_ends_blocked(site: Installation) -> None:
    replies = [says("coder", "draft", times=9), says("reviewer", rejected("no tests"), times=9)]
    spec = task(team(*PAIR), roles={"max_rework_attempts": 2})
    run = await site.start(spec, script(replies))
    gate = await open_gate(site, run)
    await site.gateway.verb(run, Answer(by="t", gate=gate.id, choice="end"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("blocked", "rework_exhausted")
    assert result.iteration_count == 2
    assert result.output in {"draft", "looked"}


@pytest.mark.parametrize(
    ("policy", "ending"),
    [
        pytest.param("end", ("unanswered", "gate_expired"), id="the end"),
        pytest.param("default:Redis", ("accepted", "approved"), id="a default"),
    ],
)
async def test_a_question_that_nobody_answers_in_time(
    site: Installation, policy: str, ending: tuple[str, str]
) -> None:
    replies = [
        says("coder", "NEEDS_CONTEXT: Which cache?"),
        says("coder", "a Redis cache"),
        says("reviewer", APPROVED),
    ]
    gates = {"timeout_s": 0.2, "on_expiry": policy}
    result = await site.run(task(team(*PAIR), gates=gates), script(replies))
    assert (result.outcome, result.reason) == ending
    (record,) = result.iterations
    said = await told(site, record.stages[0].transcript)
    assert ("Nobody answered your question in time" in said) is (policy != "end")
    assert [one.status for one in record.stages] == (
        ["cut"] if policy == "end" else ["completed", "completed"]
    )


async def test_a_pause_takes_effect_after_the_stage_and_guidance_reaches_the_next(
    site: Installation, holding: Holding
) -> None:
    replies = [says("coder", "draft", delay_s=HELD), says("reviewer", APPROVED)]
    run = await site.start(task(team(*PAIR)), script(replies))
    await holding.begun()
    await site.gateway.verb(run, Pause(by="t"))
    await site.gateway.verb(run, Amend(by="t", guidance="Prefer simple code."))
    holding.release()
    await eventually(lambda: at_stage(site, run, "reviewer"))
    assert (await site.status(run)).lifecycle == "paused"
    assert len(await site.parts.stores.journal.rows(run)) == 1
    await site.gateway.verb(run, Resume(by="t"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.spend.model_calls) == ("accepted", 2)
    coder, reviewer = [await told(site, one.transcript) for one in result.iterations[0].stages]
    assert "Prefer simple code." not in coder
    assert reviewer.count("Guidance from a person: Prefer simple code.") == 1


async def test_what_was_said_holds_in_every_later_stage(
    site: Installation, holding: Holding
) -> None:
    replies = [
        says("coder", "draft", delay_s=HELD),
        says("reviewer", rejected("a")),
        says("coder", "draft again"),
        says("reviewer", APPROVED),
    ]
    run = await site.start(task(team(*PAIR)), script(replies))
    await holding.begun()
    await site.gateway.verb(run, Amend(by="t", guidance="Prefer simple code."))
    holding.release()
    result = await site.gateway.result(run)
    assert result.outcome == "accepted"
    stages = [one for record in result.iterations for one in record.stages]
    counts = [(await told(site, one.transcript)).count("Prefer simple code.") for one in stages]
    assert counts == [0, 1, 1, 1]


async def test_the_goal_judge_sees_what_was_said_as_a_demand(
    site: Installation, holding: Holding
) -> None:
    sees = {"contains": f"{SAID_SINCE}\n- Prefer simple code."}
    replies = [
        says("coder", "draft", delay_s=HELD),
        says("evaluator", {"achieved": True, "rationale": "yes"}, when=sees),
    ]
    coding = team(stage("coder"), condition={"type": "goal_bound", "max_iterations": 1})
    run = await site.start(task(coding), script(replies))
    await holding.begun()
    await site.gateway.verb(run, Amend(by="t", guidance="Prefer simple code."))
    holding.release()
    assert (await site.gateway.result(run)).reason == "goal_achieved"


@pytest.mark.parametrize("text", ["It must keep order.", f"It must keep order.{' ' * 9_000}"],
                         ids=["short", "by reference"])  # fmt: skip
async def test_what_is_added_is_read_before_the_team_may_end(
    site: Installation, holding: Holding, text: str
) -> None:
    replies = [
        says("coder", "draft"),
        says("reviewer", APPROVED, delay_s=HELD),
        says("coder", "ordered"),
        says("reviewer", APPROVED),
    ]
    run = await site.start(task(team(*PAIR)), script(replies))
    await holding.begun()
    await site.gateway.verb(run, AddInput(by="t", text=text))
    holding.release()
    result = await site.gateway.result(run)
    assert [record.decision for record in result.iterations] == ["continue", "accept"]
    assert (result.output, result.unread_input) == ("ordered", ())
    stages = [one for record in result.iterations for one in record.stages]
    counts = [(await told(site, one.transcript)).count("It must keep order.") for one in stages]
    assert counts == [0, 0, 1, 1 if len(text) < 9_000 else 0], "a long text is read once"


async def test_what_is_added_too_late_for_the_team_is_handed_back(
    site: Installation, holding: Holding
) -> None:
    pair = team(*PAIR, condition={**REVIEWED, "max_review_rounds": 1})
    replies = [says("coder", "draft"), says("reviewer", APPROVED, delay_s=HELD)]
    run = await site.start(task(pair), script(replies))
    await holding.begun()
    await site.gateway.verb(run, AddInput(by="t", text="It must keep order."))
    holding.release()
    result = await site.gateway.result(run)
    assert (result.reason, result.unread_input) == ("approved", ("It must keep order.",))


@pytest.mark.parametrize(
    ("choice", "ending"), [("accept", ("accepted", "approved")), ("stop", ("stopped", "stopped"))]
)
async def test_an_escalation_in_the_last_call_of_an_iteration_is_still_asked(
    site: Installation, holding: Holding, choice: str, ending: tuple[str, str]
) -> None:
    replies = [
        says("coder", "draft"),
        says("reviewer", rejected("a"), delay_s=HELD),
        says("coder", "never asked"),
    ]
    run = await site.start(task(team(*PAIR)), script(replies))
    await holding.begun()
    await site.gateway.verb(run, Escalate(by="t", note="good enough?"))
    holding.release()
    gate = await open_gate(site, run)
    assert (gate.kind, gate.prompt) == ("escalation", "good enough?")
    await site.gateway.verb(run, Answer(by="t", gate=gate.id, choice=choice))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason, result.output) == (*ending, "draft")
    assert result.spend.model_calls == 2


async def test_an_escalation_that_goes_on_guides_the_next_iteration(
    site: Installation, holding: Holding
) -> None:
    replies = [
        says("coder", "draft"),
        says("reviewer", rejected("a"), delay_s=HELD),
        says("coder", "better"),
        says("reviewer", APPROVED),
    ]
    run = await site.start(task(team(*PAIR)), script(replies))
    await holding.begun()
    await site.gateway.verb(run, Escalate(by="t", note="good enough?"))
    holding.release()
    gate = await open_gate(site, run)
    answer = Answer(by="t", gate=gate.id, choice="continue", text="Mind the parser.")
    await site.gateway.verb(run, answer)
    result = await site.gateway.result(run)
    assert (result.outcome, result.output, result.iteration_count) == ("accepted", "better", 2)
    said = await told(site, result.iterations[1].stages[0].transcript)
    assert said.count("Guidance from a person: Mind the parser.") == 1


async def test_a_run_that_ended_blocked_is_retried_at_the_blocked_stage(site: Installation) -> None:
    replies = [
        says("coder", "draft"),
        says("reviewer", "BLOCKED: no access"),
        says("reviewer", APPROVED),
    ]
    run = await site.start(task(team(*PAIR)), script(replies))
    gate = await open_gate(site, run)
    await site.gateway.verb(run, Answer(by="t", gate=gate.id, choice="end"))
    ended = await site.gateway.result(run)
    assert (ended.outcome, ended.reason, ended.output) == ("blocked", "blocked", "draft")
    assert [one.status for one in ended.iterations[0].stages] == ["completed", "blocked"]

    await site.gateway.verb(run, Retry(by="t", note="access is there", request_id="again"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason, result.iteration_count) == ("accepted", "approved", 1)
    (record,) = await site.records(run)
    assert [(one.name, one.status, one.attempt) for one in record.stages] == [
        ("coder", "completed", 1),
        ("reviewer", "completed", 2),
    ]
    assert result.spend.model_calls == 3
    assert "access is there" in await told(site, record.stages[1].transcript)


@pytest.mark.long
async def test_a_run_that_ended_for_its_rework_is_retried_with_one_more_iteration(
    site: Installation,
) -> None:
    replies = [says("coder", "draft", times=9), says("reviewer", rejected("no tests"), times=9)]
    pair = team(*PAIR, condition={**REVIEWED, "max_review_rounds": 2})
    run = await site.start(task(pair, roles={"max_rework_attempts": 2}), script(replies))
    gate = await open_gate(site, run)
    await site.gateway.verb(run, Answer(by="t", gate=gate.id, choice="end"))
    ended = await site.gateway.result(run)
    assert (ended.reason, ended.iteration_count) == ("rework_exhausted", 2)

    await site.gateway.verb(run, Retry(by="t", note="tests/ is new", request_id="again"))
    result = await site.gateway.result(run)
    # One rejection after the retry asks nobody yet, and the iteration that was granted is over.
    assert (result.outcome, result.reason) == ("best_effort", "max_iterations")
    assert result.iteration_count == 3
    coder, reviewer = [await told(site, one.transcript) for one in result.iterations[2].stages]
    assert "iteration 3 of at most 3" in coder
    assert "tests/ is new" in coder
    assert "tests/ is new" not in reviewer


async def test_a_goal_judge_that_failed_is_asked_again_on_retry_and_no_stage_works_twice(
    site: Installation,
) -> None:
    refused = {"error": {"status": 401, "message": "no such key"}, "when": {"role": "evaluator"}}
    replies = [
        says("coder", "draft"),
        refused,
        says("evaluator", {"achieved": True, "rationale": "yes"}),
    ]
    coding = team(stage("coder"), condition={"type": "goal_bound", "max_iterations": 1})
    run = await site.start(task(coding), script(replies))
    failed = await site.gateway.result(run)
    assert (failed.outcome, failed.reason) == ("failed", "evaluator_failed")
    assert (failed.output, failed.iterations[0].verdicts) == ("draft", ())

    await site.gateway.verb(run, Retry(by="t", request_id="again"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason, result.output) == ("accepted", "goal_achieved", "draft")
    assert (result.iteration_count, result.partial) == (1, False)
    rows = await site.parts.stores.journal.rows(run)
    assert [row.role for row in rows] == ["coder", "evaluator", "evaluator"]
    (record,) = await site.records(run)
    assert [(one.name, one.attempt) for one in record.stages] == [("coder", 1)]
    assert [one.kind for one in record.verdicts] == ["achieved"]


async def test_a_person_may_accept_what_there_is_in_the_middle_of_a_stage(
    probe: Installation, holding: Holding
) -> None:
    looks = {**asks("reviewer", "probe.echo", {"text": "a"}), "delay_s": HELD}
    replies = [says("coder", "draft"), looks, says("reviewer", "half a review")]
    pair = team(stage("coder"), stage("reviewer", access="readonly"))
    run = await probe.start(task(pair), script(replies))
    await holding.begun()
    await probe.gateway.verb(run, Escalate(by="t", note="good enough?"))
    holding.release()
    gate = await open_gate(probe, run)
    assert gate.kind == "escalation"
    await probe.gateway.verb(run, Answer(by="t", gate=gate.id, choice="accept"))
    result = await probe.gateway.result(run)
    assert (result.outcome, result.reason, result.output) == ("accepted", "approved", "draft")
    assert [one.status for one in result.iterations[0].stages] == ["completed", "cut"]
