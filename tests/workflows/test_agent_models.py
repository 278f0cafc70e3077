"""Models that fail: retries, failover, windows, refusals, recovery, thinking, given histories."""

from collections.abc import Mapping

import pytest
from agent_runs import (
    books_agree,
    call,
    calls,
    conversation,
    echo,
    event_types,
    script,
    shown,
    task,
)
from installation import Installation

from perdure.adapters.llm.scripted import ScriptedModel
from perdure.domain.llm.requests import ModelRequest
from perdure.domain.llm.transcript import Message, TextBlock, ThinkingBlock, ToolResultBlock
from perdure.domain.turns.settings import FALLBACK_TEXT

DONE = {"text": "Done."}
OVERFLOW = {"error": "context_overflow"}
BROKEN = {"error": "bad_request"}
RECOVERED = ("best_effort", "recovered")
UNUSABLE = ("failed", "model_error")


async def chain(site: Installation, content: dict[str, object], *labels: str) -> list[str]:
    """One script that plays several models, told apart by their labels."""
    name = await site.script(content)
    return [f"{name}#{label}" for label in labels]


def of(label: str, reply: Mapping[str, object], **more: object) -> dict[str, object]:
    """A reply of one model of a chain."""
    return {**reply, "when": {"model": label}, **more}


@pytest.mark.parametrize(
    ("error", "made"), [("overloaded", 3), ("rate_limited", 3), ("server", 3), ("connection", 1)]
)
async def test_what_waiting_heals_is_tried_again(probe: Installation, error, made) -> None:
    """A provider that was never reached has not been called."""
    result = await probe.run(task(), script({"error": error, "times": 2}, DONE))
    assert (result.output, result.iteration_count) == ("Done.", 1)
    assert result.iterations[0].model_calls == made
    assert "model_failed_over" not in await event_types(probe, result.id)
    await books_agree(probe, result)


@pytest.mark.parametrize(
    ("error", "attempts"),
    [("bad_request", 1), ("unknown_model", 1), ("authentication", 1), ("overloaded", 2)],
)
async def test_the_next_model_takes_over_for_the_rest_of_the_run(
    probe: Installation, error, attempts
) -> None:
    content = script(of("a", {"error": error}, times=attempts), of("b", echo("x")), of("b", DONE))
    models = await chain(probe, content, "a", "b")
    result = await probe.run(task(models={"executor": models}))
    assert (result.outcome, result.output) == ("accepted", "Done.")
    assert [record.model for record in result.iterations] == [models[1], models[1]]
    assert result.iterations[0].adaptation == f"model_failed_over from {models[0]}"
    assert result.iterations[1].adaptation is None
    assert result.iterations[0].model_calls == attempts + 1
    assert result.models_used == (models[1],)
    assert result.model == models[1]
    assert (await event_types(probe, result.id)).count("model_failed_over") == 1
    await books_agree(probe, result)


async def test_a_fallback_without_a_fallback_has_all_the_attempts(probe: Installation) -> None:
    down = {"error": "overloaded"}
    content = script(of("a", down, times=2), of("b", down, times=3), of("b", DONE))
    models = await chain(probe, content, "a", "b")
    result = await probe.run(task(models={"executor": models}))
    assert (result.outcome, result.output) == ("accepted", "Done.")
    assert result.spend.model_calls == 6


async def test_a_model_without_a_price_is_passed_over(
    probe: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = await chain(probe, script(of("b", DONE)), "a", "b")
    card = ScriptedModel.card

    async def only_b(self, model: str):
        found = await card(self, model)
        return found.model_copy(update={"price": None}) if model.endswith("#a") else found

    monkeypatch.setattr(ScriptedModel, "card", only_b)
    result = await probe.run(task(models={"executor": models}))
    assert (result.outcome, result.output) == ("accepted", "Done.")
    assert result.iterations[0].adaptation == f"model_failed_over from {models[0]}"
    assert result.spend.model_calls == 1


async def test_a_pinned_model_is_never_failed_over(probe: Installation) -> None:
    models = await chain(probe, script(of("a", BROKEN), of("b", DONE)), "a", "b")
    result = await probe.run(task(models={"executor": models, "pinned": True}))
    assert (result.outcome, result.reason) == ("failed", "model_error")
    assert result.output == FALLBACK_TEXT
    assert result.error is not None and "model_bad_request" in result.error


async def test_a_refusal_is_put_to_the_next_model_not_to_the_same(probe: Installation) -> None:
    content = script(echo("x"), of("a", {"error": "refusal"}), of("b", DONE))
    models = await chain(probe, content, "a", "b")
    result = await probe.run(task(models={"executor": models}))
    assert (result.outcome, result.output) == ("accepted", "Done.")
    assert [record.stop_reason for record in result.iterations] == [
        "tool_use",
        "refusal",
        "end_turn",
    ]
    kinds = [
        block.type
        for message in await conversation(probe, result.transcript)
        for block in message.blocks
    ]
    assert kinds == ["text", "tool_use", "tool_result", "text"]


async def test_an_overflow_is_cured_once_on_the_same_model(probe: Installation) -> None:
    long = calls(call("probe.page", number=1, size=7_900))
    result = await probe.run(task(), script(long, OVERFLOW, DONE))
    assert (result.outcome, result.output) == ("accepted", "Done.")
    assert "context_pressure" in await event_types(probe, result.id)
    texts = [
        block.text
        for message in await conversation(probe, result.transcript)
        for block in message.blocks
        if block.type == "tool_result"
    ]
    assert len(texts) == 1 and len(texts[0]) < 300
    assert 'artifact.read {"ref": "sha256:' in texts[0]
    assert (await shown(probe, result))[0] == "user: do it"


async def test_a_conversation_is_compacted_before_its_window_is_full(probe: Installation) -> None:
    pages = [calls(call("probe.page", number=number, size=7_900)) for number in range(6)]
    result = await probe.run(task(), script(*pages, DONE, window=9_000))
    assert (result.outcome, result.output) == ("accepted", "Done.")
    assert result.spend.model_calls == 7
    assert "context_pressure" in await event_types(probe, result.id)
    assert max(record.usage.input_tokens for record in result.iterations) <= 9_000
    assert (await shown(probe, result))[0].startswith("user: do it")
    await books_agree(probe, result)


async def test_a_second_overflow_needs_a_larger_window(probe: Installation) -> None:
    small = await probe.script(script(OVERFLOW, OVERFLOW, window=10_000))
    equal = await probe.script(script(DONE, window=10_000))
    large = await probe.script(script({"text": "Large."}, window=20_000))
    result = await probe.run(task(models={"executor": [small, equal, large]}))
    assert (result.output, result.models_used) == ("Large.", (large,))


async def test_without_a_larger_window_the_run_has_failed(probe: Installation) -> None:
    small = await probe.script(script(OVERFLOW, OVERFLOW, window=10_000))
    equal = await probe.script(script(DONE, window=10_000))
    result = await probe.run(task(models={"executor": [small, equal]}))
    assert (result.outcome, result.reason) == ("failed", "model_error")
    assert result.error is not None and "model_context_overflow" in result.error


@pytest.mark.parametrize(
    ("replies", "recovery", "end", "output"),
    [
        ([echo("a"), BROKEN], DONE, RECOVERED, "Done."),
        ([echo("a"), BROKEN], {"error": "overloaded"}, UNUSABLE, FALLBACK_TEXT),
        ([echo("a"), BROKEN], {"text": " "}, UNUSABLE, FALLBACK_TEXT),
        ([BROKEN], DONE, UNUSABLE, FALLBACK_TEXT),
        ([calls(call("probe.fail", text="x")), BROKEN], DONE, UNUSABLE, FALLBACK_TEXT),
    ],
    ids=[
        "writes the closing text",
        "fails once and no more",
        "says nothing",
        "no work done",
        "no tool succeeded",
    ],
)
async def test_the_recovery_model(probe: Installation, replies, recovery, end, output) -> None:
    models = {
        "executor": await probe.script(script(*replies)),
        "recovery": await probe.script(script(recovery)),
    }
    result = await probe.run(task(models=models))
    assert (result.outcome, result.reason, result.output) == (*end, output)
    assert "model_bad_request" in result.explanation or end == UNUSABLE
    assert result.partial
    assert not result.quality_met
    await books_agree(probe, result)


async def test_a_failed_run_says_what_was_done_so_far(probe: Installation) -> None:
    result = await probe.run(task(), script(echo("a"), BROKEN))
    assert result.tools_used == {"probe.echo": 1}
    assert [record.break_reason for record in result.iterations] == [None, "model_error"]
    assert result.iterations[1].error


async def test_thinking_stays_native_in_the_transcript(
    probe: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ModelRequest] = []
    play = ScriptedModel.call

    async def thinking(self, request, **heard):
        asked.append(request)
        reply = await play(self, request, **heard)
        thought = ThinkingBlock(
            type="thinking",
            model=request.model,
            native={"type": "thinking", "thinking": "hm", "signature": "s"},
        )
        blocks = (thought, *reply.message.blocks)
        return reply.model_copy(update={"message": Message(role="assistant", blocks=blocks)})

    monkeypatch.setattr(ScriptedModel, "call", thinking)
    result = await probe.run(task(), script(echo("a"), DONE))
    blocks = [
        block
        for message in await conversation(probe, result.transcript)
        for block in message.blocks
        if isinstance(block, ThinkingBlock)
    ]
    assert len(blocks) == 2
    assert blocks[0].native == {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert blocks[0] in asked[1].messages[1].blocks


async def test_given_messages_come_before_the_task(probe: Installation) -> None:
    given = [{"role": "user", "text": "Hello."}, {"role": "assistant", "text": "Hi."}]
    result = await probe.run(task(agent={"messages": given}), script(DONE))
    assert await shown(probe, result) == [
        "user: Hello.",
        "assistant: Hi.",
        "user: do it",
        "assistant: Done.",
    ]


async def test_a_run_can_go_on_from_the_transcript_of_another(probe: Installation) -> None:
    first = await probe.run(task(), script(echo("a"), DONE))
    again = await probe.run(
        task(goal="and now?", agent={"transcript": first.transcript}), script({"text": "More."})
    )
    assert (await shown(probe, again))[-3:] == [
        "assistant: Done.",
        "user: and now?",
        "assistant: More.",
    ]


async def test_a_transcript_with_open_calls_is_closed_first(probe: Installation) -> None:
    first = await probe.run(task(), script(echo("a"), DONE))
    head = first.iterations[0].transcript
    again = await probe.run(task(agent={"transcript": head}), script({"text": "More."}))
    messages = await conversation(probe, again.transcript)
    assert [block.type for block in messages[2].blocks] == ["tool_result"]
    assert [
        block.outcome for block in messages[2].blocks if isinstance(block, ToolResultBlock)
    ] == ["interrupted"]


async def test_named_inputs_are_shown_as_data(probe: Installation) -> None:
    stored = await probe.parts.stores.blobs.put_text("from the store")
    context = {"notes": "plain", "list": [1], "long": {"ref": stored.hash}}
    result = await probe.run(task(context=context), script(DONE))
    first = (await conversation(probe, result.transcript))[0]
    assert first.pinned
    assert first.text == (
        'do it\n\n<input name="notes">\nplain\n</input>\n\n<input name="list">\n[\n 1\n]\n</input>'
        '\n\n<input name="long">\nfrom the store\n</input>'
    )


async def test_the_system_prompt_is_the_tasks(
    probe: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ModelRequest] = []
    play = ScriptedModel.call

    async def listening(self, request, **heard):
        asked.append(request)
        return await play(self, request, **heard)

    monkeypatch.setattr(ScriptedModel, "call", listening)
    await probe.run(task(agent={"system": "Speak like a pirate."}), script(echo("a"), DONE))
    assert {request.system for request in asked} == {"Speak like a pirate."}
    assert {request.tool_choice for request in asked} == {"auto"}
    assert list(asked[0].messages[0].blocks) == [TextBlock(type="text", text="do it")]
