"""People and the refine loop: escalations, stops, pauses, amendments, input, in a running run."""

import asyncio
from collections.abc import Sequence

import pytest
from holding import HELD, Holding
from installation import Installation
from pydantic import JsonValue
from refining import (
    TONE,
    WORDS_CHECK,
    at_call,
    draft,
    drafts,
    events,
    judge_prompts,
    judged,
    open_gate,
    prompt_of,
    spec,
    verdict,
    written,
)

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.run.messages import AddInput, Amend, Answer, Escalate, Stop
from perdure.domain.run.result import RunResult

OPEN = {"improvement_threshold": None}
LIST = {"name": "fs.list", "arguments": {"path": "."}}


@pytest.mark.parametrize(
    ("choice", "text", "ended", "decisions"),
    [
        pytest.param("accept", None, ("accepted", "approved"), ["escalate"], id="accept"),
        pytest.param("stop", None, ("stopped", "stopped"), ["escalate"], id="stop"),
        pytest.param("continue", "use more trees", ("accepted", "quality_met"),
                     ["escalate", "accept"], id="continue"),
    ],
)  # fmt: skip
async def test_a_low_score_asks_a_person(
    site: Installation,
    choice: str,
    text: str | None,
    ended: tuple[str, str],
    decisions: Sequence[str],
) -> None:
    run = await site.start(spec(escalate_below=0.3), {"replies": drafts(0.2, 0.9)})
    gate = await open_gate(site, run)
    assert gate.kind == "escalation"
    assert "0.2 is below 0.3" in gate.prompt
    await site.gateway.verb(run, Answer(gate=gate.id, choice=choice, text=text))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ended
    assert [record.decision for record in result.iterations] == decisions
    if text is not None:
        said = await prompt_of(site, result.transcript)
        assert sum(text in message for _, message in said) == 1


async def test_a_person_is_asked_after_the_iteration(site: Installation, holding: Holding) -> None:
    replies = [{"text": draft(0.5, "a"), "delay_s": HELD}, *written(draft(0.6, "b"))]
    run = await site.start(spec(max_iterations=2, **OPEN), {"replies": replies})
    await at_call(site, run, "executor", 1)
    await site.gateway.verb(run, Escalate(note="look at this", by="ann"))
    holding.release()
    gate = await open_gate(site, run)
    assert gate.prompt == "look at this"
    await site.gateway.verb(run, Answer(gate=gate.id, choice="continue"))
    result = await site.gateway.result(run)
    assert [record.decision for record in result.iterations] == ["escalate", "accept_best"]


ONCE: dict[str, object] = {"termination": {"type": "max_iterations", "limit": 1}}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"max_iterations": 1}, id="of the task"),
        pytest.param(ONCE, id="of its termination tree", marks=pytest.mark.long),
    ],
)
async def test_going_on_never_passes_the_iteration_limit(
    site: Installation, holding: Holding, settings: dict[str, object]
) -> None:
    replies = [{"text": draft(0.5, "a"), "delay_s": HELD}]
    run = await site.start(spec(**settings), {"replies": replies})
    await at_call(site, run, "executor", 1)
    await site.gateway.verb(run, Escalate(note="why"))
    holding.release()
    gate = await open_gate(site, run)
    await site.gateway.verb(run, Answer(gate=gate.id, choice="continue", text="again"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("best_effort", "max_iterations")
    assert len(result.iterations) == 1


@pytest.mark.parametrize("choice", ["continue", "accept", "stop"])
async def test_a_critical_tool_loop_asks_a_person(site: Installation, choice: str) -> None:
    looping = {
        **spec(max_iterations=2, **OPEN),
        "tools": {"access": "readonly"},
        "agent": {"tool_loop": {"warning": 1, "critical": 2, "circuit_breaker": 9}},
    }
    calls = [{"tool_calls": [LIST]}] * 3
    replies = [*calls, {"text": draft(0.5, "a")}, {"text": draft(0.6, "b")}]
    run = await site.start(looping, {"replies": replies})
    gate = await open_gate(site, run)
    assert "repeating" in gate.prompt
    await site.gateway.verb(run, Answer(gate=gate.id, choice=choice))
    result = await site.gateway.result(run)
    reasons = {"continue": "max_iterations", "accept": "approved", "stop": "stopped"}
    assert result.reason == reasons[choice]
    assert result.iterations[0].decision == "escalate"
    assert result.iterations[0].score == 0.5
    assert result.output == draft(0.6, "b") if choice == "continue" else draft(0.5, "a")


async def test_a_broken_tool_loop_ends_the_run_with_the_best(site: Installation) -> None:
    looping = {
        **spec(**OPEN),
        "tools": {"access": "readonly"},
        "agent": {"tool_loop": {"warning": 1, "critical": 2, "circuit_breaker": 2}},
    }
    calls = [{"tool_calls": [LIST]}] * 3
    replies = [{"text": draft(0.7, "a")}, *calls, {"text": draft(0.6, "b")}]
    result = await site.run(looping, {"replies": replies})
    assert (result.outcome, result.reason) == ("tool_misuse", "tool_loop")
    assert [record.decision for record in result.iterations] == ["continue", "abort_tool_loop"]
    assert result.output == draft(0.7, "a")


async def stopped(
    site: Installation, holding: Holding, replies: object, message: Stop
) -> RunResult:
    run = await site.start(spec(**OPEN), {"replies": replies})
    await holding.begun()
    await site.gateway.verb(run, message)
    if message.mode == "graceful":
        holding.release()
    return await site.gateway.result(run)


async def test_a_graceful_stop_still_scores_the_draft_in_flight(
    site: Installation, holding: Holding
) -> None:
    replies = [{"text": draft(0.5, "a")}, {"text": draft(0.6, "b"), "delay_s": HELD}]
    result = await stopped(site, holding, replies, Stop(mode="graceful"))
    assert (result.outcome, result.reason) == ("stopped", "stopped")
    assert [record.decision for record in result.iterations] == ["continue", "stop"]
    assert result.output == draft(0.6, "b")
    assert result.best is not None
    assert result.best.score == 0.6


@pytest.mark.long
async def test_a_stop_at_once_returns_the_best_so_far(site: Installation, holding: Holding) -> None:
    replies = [{"text": draft(0.5, "a")}, {"text": draft(0.6, "b"), "delay_s": HELD}]
    result = await stopped(site, holding, replies, Stop(mode="now"))
    assert result.outcome == "stopped"
    assert result.output == draft(0.5, "a")
    assert result.last is not None
    assert (result.last.iteration, result.last.score) == (2, None)


@pytest.mark.long
async def test_a_stop_while_the_judge_reads_keeps_the_unscored_draft(site: Installation) -> None:
    slow = [{**entry, "delay_s": 60} for entry in judged(verdict(0.9))]
    run = await site.start(spec([TONE]), {"replies": [*written("a draft"), *slow]})
    await at_call(site, run, "evaluator", 1)
    await site.gateway.verb(run, Stop(mode="now"))
    result = await site.gateway.result(run)
    assert result.outcome == "stopped"
    assert result.output == "a draft"
    assert not result.quality_met
    assert result.iterations[0].score is None


async def test_what_was_said_holds_and_is_demanded_by_the_judge(
    site: Installation, holding: Holding
) -> None:
    later = judged(verdict(0.4), verdict(0.6), verdict(0.7))
    slow = [{**judged(verdict(0.5))[0], "delay_s": HELD}, *later]
    run = await site.start(spec([TONE], **OPEN), {"replies": [*written(*"abc"), *slow]})
    await at_call(site, run, "evaluator", 1)
    await site.gateway.verb(run, Amend(guidance="prefer conifers"))
    holding.release()
    result = await site.gateway.result(run)
    prompts = [await prompt_of(site, record.transcript) for record in result.iterations]
    counts = [sum("prefer conifers" in text for _, text in prompt) for prompt in prompts]
    assert counts == [0, 1, 1]
    demanded = ["prefer conifers" in prompt for prompt in await judge_prompts(site, run)]
    assert demanded == [False, True, True, True], "the best is scored by it too"


async def test_what_was_said_is_taken_back(site: Installation, holding: Holding) -> None:
    first, second, *_ = written(*"abc")
    replies = [first, second, {**written("c")[0], "delay_s": HELD}]
    slow = [{**judged(verdict(0.5))[0], "delay_s": HELD}, *judged(verdict(0.6), verdict(0.7))]
    run = await site.start(spec([TONE], **OPEN), {"replies": [*replies, *slow]})
    await at_call(site, run, "evaluator", 1)
    await site.gateway.verb(run, AddInput(text="prefer conifers", by="ann"))
    status = await site.status(run)
    assert [(one.number, one.text, one.by) for one in status.said] == [
        (1, "prefer conifers", "ann")
    ]
    await site.gateway.verb(run, Amend(remove=(1,)))
    assert (await site.status(run)).said == ()
    holding.release()
    result = await site.gateway.result(run)
    prompts = [await prompt_of(site, record.transcript) for record in result.iterations]
    counts = [sum("prefer conifers" in text for _, text in prompt) for prompt in prompts]
    assert counts == [0, 0, 0], "nobody had read it when it was taken back"


async def test_an_amended_rubric_scores_the_best_anew(site: Installation, holding: Holding) -> None:
    replies = [{"text": draft(0.5, "a")}, {"text": f"{draft(0.6, 'b')} pine", "delay_s": HELD}]
    run = await site.start(spec(**OPEN), {"replies": [*replies, *written("pine")]})
    await at_call(site, run, "executor", 2)
    only: dict[str, JsonValue] = {
        "name": "pine",
        "evaluator": {"check": "contains", "all": ["pine", "larch"]},
    }
    await site.gateway.verb(run, Amend(rubric=[only], by="ann"))
    holding.release()
    result = await site.gateway.result(run)
    assert [record.score for record in result.iterations] == [0.5, 0.5, 0.5]
    assert list(result.iterations[1].dimensions) == ["pine"]
    adopted = [e for e in await events(site, run) if e.type == "amended" and "score" in e.data]
    assert [event.data["score"] for event in adopted] == [0.0]
    assert result.best is not None
    assert result.best.iteration == 3


@pytest.mark.parametrize(
    ("rubric", "why"),
    [
        pytest.param([], "at least one dimension", id="empty"),
        pytest.param([{**WORDS_CHECK, "part": 1}], "part", id="parts without parts"),
        pytest.param([{"name": "x", "evaluator": {"check": "telepathy"}}], "telepathy", id="kind"),
        pytest.param([{"name": "x", "evaluator": {"check": "regex", "pattern": "("}}],
                     r"rubric\[0\].evaluator.pattern", id="pattern"),
    ],
)  # fmt: skip
async def test_a_rubric_that_cannot_be_used_is_refused(
    site: Installation, rubric: list[object], why: str, holding: Holding
) -> None:
    run = await site.start(spec(), {"replies": [{"text": draft(0.9), "delay_s": HELD}]})
    await at_call(site, run, "executor", 1)
    with pytest.raises(PerdureError, match=why):
        await site.gateway.verb(run, Amend(rubric=rubric))  # type: ignore[arg-type]
    holding.release()
    assert (await site.gateway.result(run)).outcome == "accepted"


async def test_an_amended_rubric_may_use_the_checks_of_the_workers_plugins(
    bare: Installation, holding: Holding
) -> None:
    async with bare.worker(plugins=("probe_checks",)):
        replies = [{"text": draft(0.5, "a"), "delay_s": HELD}, *written("b")]
        run = await bare.start(spec(max_iterations=2, **OPEN), {"replies": replies})
        await at_call(bare, run, "executor", 1)
        fits: dict[str, JsonValue] = {"name": "fits", "evaluator": {"check": "probe"}}
        await bare.gateway.verb(run, Amend(rubric=[fits]))
        holding.release()
        result = await bare.gateway.result(run)
    assert list(result.iterations[0].dimensions) == ["fits"]


async def test_input_is_read_before_the_run_may_end(site: Installation, holding: Holding) -> None:
    slow = [{**entry, "delay_s": HELD} for entry in judged(verdict(0.9))]
    replies = [*written("a", "b"), *slow, *judged(verdict(0.5), verdict(0.9))]
    run = await site.start(spec([TONE], **OPEN), {"replies": replies})
    await at_call(site, run, "evaluator", 1)
    await site.gateway.verb(run, AddInput(text="it is for children"))
    holding.release()
    result = await site.gateway.result(run)
    assert [record.decision for record in result.iterations] == ["continue", "accept"]
    assert any("for children" in text for _, text in await prompt_of(site, result.transcript))
    assert result.unread_input == ()


async def test_input_after_the_last_iteration_is_handed_back(
    site: Installation, holding: Holding
) -> None:
    slow = [{**entry, "delay_s": HELD} for entry in judged(verdict(0.5))]
    run = await site.start(spec([TONE], max_iterations=1), {"replies": [*written("a"), *slow]})
    await at_call(site, run, "evaluator", 1)
    await site.gateway.verb(run, AddInput(text="too late"))
    holding.release()
    result = await site.gateway.result(run)
    assert result.unread_input == ("too late",)


async def test_a_person_may_raise_a_spent_budget(site: Installation) -> None:
    given = {**spec(max_iterations=2, **OPEN), "budget": {"model_calls": 1, "on_exhausted": "ask"}}
    run = await site.start(given, {"replies": drafts(0.5, 0.6)})
    gate = await open_gate(site, run)
    assert gate.kind == "budget"
    await site.gateway.verb(run, Amend(budget={"model_calls": 5}))
    await site.gateway.verb(run, Answer(gate=gate.id, choice="raise"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ("best_effort", "max_iterations")
    assert [record.score for record in result.iterations] == [0.5, 0.6]


async def test_the_search_attributes_follow_the_iterations(
    site: Installation, holding: Holding
) -> None:
    replies = [*drafts(0.5, 0.6), {"text": draft(0.7, "c"), "delay_s": HELD}]
    run = await site.start(spec(**OPEN), {"replies": replies})
    await at_call(site, run, "executor", 3)
    seen = (await site.handle(run).describe()).search_attributes
    assert seen["PerdureIteration"] == [3]
    assert seen["PerdureScore"] == [0.6]
    holding.release()
    await asyncio.wait_for(site.gateway.result(run), 60)
    ended = (await site.handle(run).describe()).search_attributes
    assert ended["PerdureScore"] == [0.7]
    assert ended["PerdureOutcome"] == ["best_effort"]
