"""People steer a role loop: questions, pauses, guidance, an accepted draft, a fork."""

from installation import Installation
from stages import another_gate, at_stage, open_gate, told
from teams import APPROVED, PAIR, REVIEWED, rejected, says, script, task, team
from waiting import eventually

from perdure.domain.messages import Answer, Escalate, Pause, Resume, Retry
from perdure.domain.names import learn_run_id
from perdure.domain.run import RUN_SPEC


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
    await site.gateway.verb(run, Retry(by="t", note="the parser is in lib/", request_id="r"))
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


async def test_a_question_waits_for_an_answer_in_the_same_conversation(
    site: Installation,
) -> None:
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
    await site.gateway.verb(run, Retry(by="t", note="access is there", request_id="r"))
    await eventually(lambda: another_gate(site, run, gate.id))
    second = await open_gate(site, run)
    await site.gateway.verb(run, Answer(by="t", gate=second.id, choice="end"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("blocked", "blocked")
    (record,) = await site.records(run)
    assert [(one.status, one.attempt) for one in record.stages] == [("blocked", 2)]
    assert "access is there" in await told(site, record.stages[0].transcript)


async def test_a_pause_takes_effect_after_the_stage(site: Installation) -> None:
    replies = [
        says("coder", "draft", delay_s=1.5),
        says("reviewer", APPROVED),
    ]
    run = await site.start(task(team(*PAIR)), script(replies))
    await eventually(lambda: at_stage(site, run, "coder"))
    await site.gateway.verb(run, Pause(by="t"))
    await eventually(lambda: at_stage(site, run, "reviewer"))
    assert (await site.status(run)).lifecycle == "paused"
    assert len(await site.parts.stores.journal.rows(run)) == 1
    await site.gateway.verb(run, Resume(by="t"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.spend.model_calls) == ("accepted", 2)


async def test_a_person_may_accept_what_there_is_in_the_middle_of_a_stage(
    site: Installation,
) -> None:
    replies = [
        says("coder", "draft"),
        says("reviewer", rejected("a"), delay_s=1.5),
        says("coder", "never asked"),
    ]
    run = await site.start(task(team(*PAIR)), script(replies))
    await eventually(lambda: at_stage(site, run, "reviewer"))
    await site.gateway.verb(run, Escalate(by="t", note="good enough?"))
    gate = await open_gate(site, run)
    assert gate.kind == "escalation"
    await site.gateway.verb(run, Answer(by="t", gate=gate.id, choice="accept"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason, result.output) == ("accepted", "approved", "draft")
    assert result.spend.model_calls == 2


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
