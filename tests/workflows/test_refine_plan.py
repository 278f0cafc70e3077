"""Before the first draft: a plan that the executor sees, or a question that needs none."""

import pytest
from installation import Installation
from refining import TONE, events, judged, open_gate, prompt_of, spec, verdict, written

PLANNED: dict[str, object] = {
    "steps": [{"title": "List ten", "acceptance": "ten names"}],
    "risks": ["shrubs"],
}
QUESTION = "What does the bottle weigh?"


def planned(*replies: dict[str, object] | str) -> list[dict[str, object]]:
    """Script entries of a planner."""
    when = {"role": "planner"}
    return [
        {"when": when, "text": said} if isinstance(said, str) else {"when": when, "json": said}
        for said in replies
    ]


async def test_the_executor_sees_the_plan_until_it_sees_its_own_draft(site: Installation) -> None:
    stiff = {"severity": "important", "dimension": "tone", "title": "stiff", "fix": "warm up"}
    replies = [
        *planned(PLANNED),
        *written("first", "second"),
        *judged(verdict(0.5, stiff), verdict(0.9, resolved=["F1"])),
    ]
    run = await site.start(spec([TONE], plan="auto"), {"replies": replies})
    result = await site.gateway.result(run)
    first, second = [await prompt_of(site, item.transcript) for item in result.iterations]
    assert "Plan:\n1. List ten (done when: ten names)\nRisk: shrubs" in first[0][1]
    assert "Plan:" not in second[0][1]
    assert "planning" in result.spend.by_phase
    assert result.iterations[0].model_calls == 2  # the plan is made inside no iteration
    story = {event.type: event.data for event in await events(site, run)}
    assert story["planned"] == {"steps": ["List ten"]}


@pytest.mark.long
async def test_fix_steps_stand_in_the_status(site: Installation) -> None:
    stiff = {"severity": "important", "dimension": "tone", "title": "stiff", "fix": "warm up"}
    replies = [*planned(PLANNED), *written("first"), *judged(verdict(0.2, stiff))]
    run = await site.start(spec([TONE], plan="on", escalate_below=0.3), {"replies": replies})
    await open_gate(site, run)
    assert (await site.status(run)).plan == ("List ten", "fix: warm up")
    await site.handle(run).signal("stop", {})
    await site.gateway.result(run)


async def test_a_plan_is_asked_for_again_once(site: Installation) -> None:
    replies = [*planned("I would list trees.", PLANNED), *written("x"), *judged(verdict(0.9))]
    run = await site.start(spec([TONE], plan="on"), {"replies": replies})
    result = await site.gateway.result(run)
    assert result.spend.by_phase["planning"]["model_calls"] == 2
    assert (await site.status(run)).plan == ("List ten",)


@pytest.mark.long
async def test_no_plan_is_no_reason_to_stop(site: Installation) -> None:
    replies = [*planned("no", "no again"), *written("x"), *judged(verdict(0.9))]
    run = await site.start(spec([TONE], plan="on"), {"replies": replies})
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
    story = {event.type: event.data for event in await events(site, run)}
    assert "JSON object" in str(story["planned"]["failed"])


async def test_a_question_gets_one_answer_and_no_evaluation(site: Installation) -> None:
    task = {**spec([TONE], plan="auto"), "goal": QUESTION}
    run = await site.start(task, {"replies": written("It weighs 300 g.")})
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason, result.read_only) == ("accepted", "read_only", True)
    record = result.iterations[0]
    assert (record.decision, record.evaluation, record.score) == (
        "accept",
        "skipped_read_only",
        None,
    )
    assert result.output == "It weighs 300 g."
    assert not result.partial
    assert result.spend.model_calls == 1
    story = {event.type: event.data for event in await events(site, run)}
    assert story["planned"]["read_only"] is True
    assert "question" in str(story["planned"]["why"])


async def test_a_long_answer_is_joined(site: Installation) -> None:
    replies = [{"text": "It weighs ", "stop_reason": "max_tokens"}, {"text": "300 g."}]
    result = await site.run({**spec([TONE]), "goal": QUESTION}, {"replies": replies})
    assert result.output == "It weighs 300 g."


async def test_the_classifier_can_be_switched_off(site: Installation) -> None:
    task = {**spec([TONE], classify="off"), "goal": QUESTION}
    replies = [*written("It weighs 300 g."), *judged(verdict(0.9))]
    result = await site.run(task, {"replies": replies})
    assert (result.reason, result.read_only) == ("quality_met", False)


async def test_a_question_that_fails_is_a_failure(site: Installation) -> None:
    task = {**spec([TONE]), "goal": QUESTION}
    result = await site.run(task, {"replies": [{"error": {"status": 400}}]})
    assert (result.outcome, result.reason) == ("failed", "model_error")


async def test_an_iteration_that_used_its_share_closes_its_tool_turns(site: Installation) -> None:
    """The first of three iterations may use 40 % together with recall; then it is to answer."""
    call = {"tool_calls": [{"name": "fs.list", "arguments": {}}], "when": {"role": "executor"}}
    big = {**call, "usage": {"input_tokens": 4_500, "output_tokens": 50}}
    replies = [big, {"when": {"role": "executor"}, "text": "a draft"}, *judged(verdict(0.9))]
    task = {**spec([TONE]), "tools": {"access": "readonly"}, "budget": {"tokens": 10_000}}
    run = await site.start(task, {"replies": replies})
    result = await site.gateway.result(run)
    assert result.reason == "quality_met"
    texts = [event.data for event in await events(site, run) if event.type == "text_answered"]
    assert texts == [{"source": "forced"}]
    assert result.iterations[0].tool_calls == 1


async def test_a_script_that_knows_no_planner_runs_without_a_plan(site: Installation) -> None:
    replies = [*written("x"), *judged(verdict(0.9))]
    result = await site.run(spec([TONE], plan="auto"), {"replies": replies})
    assert (result.outcome, result.reason) == ("accepted", "quality_met")
