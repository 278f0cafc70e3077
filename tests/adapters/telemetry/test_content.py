"""What was said, in spans: the GenAI attributes, masked and bounded."""

import json
from collections.abc import Callable

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from perdure.adapters.logging.redacting import keep_secret
from perdure.adapters.telemetry.content import (
    ATTRIBUTE_BYTES,
    CUT,
    TEXT_CHARACTERS,
    TracedModels,
    TracedTools,
    written,
)
from perdure.domain.llm.requests import CallContext, ModelReply, ModelRequest
from perdure.domain.llm.transcript import (
    Message,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    assistant_message,
    user_message,
)
from perdure.domain.llm.usage import Usage
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation, ToolOutput

SECRET = 'tok-5f1c0f5e7a"quoted'
USE = ToolUseBlock(type="tool_use", id="c1", name="fs.read", arguments={"path": "a", "key": SECRET})
RESULT = ToolResultBlock(
    type="tool_result", call_id="c1", name="fs.read", outcome="ok", text=f"key is {SECRET}"
)
THOUGHT = ThinkingBlock(type="thinking", model="m", native={"thinking": "private"})


class Says:
    """A model, and its catalogue, that answers with one message."""

    def resolve(self, model: str) -> "Says":
        return self

    async def call(self, request: ModelRequest, **_: object) -> ModelReply:
        return ModelReply(
            message=assistant_message(f"the key is {SECRET}"),
            stop_reason="end_turn",
            usage=Usage(),
            model="m",
        )


class Gives:
    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        return ToolOutput(outcome="ok", text="x" * (TEXT_CHARACTERS + 1) + SECRET)


@pytest.fixture(autouse=True)
def _known_secret() -> None:
    keep_secret([SECRET])


def request(*messages: Message) -> ModelRequest:
    context = CallContext.model_construct()
    return ModelRequest.model_construct(
        model="m", system=f"be brief {SECRET}", messages=messages, max_tokens=9, context=context
    )


async def spanned(work: Callable[[], object]) -> ReadableSpan:
    """The span in which `work` was done."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("RunActivity:call_model"):
        await work()  # type: ignore[misc]
    (span,) = exporter.get_finished_spans()
    return span


async def test_a_call_shows_instructions_messages_and_reply() -> None:
    asked = request(
        user_message("read a"),
        Message(role="assistant", blocks=(THOUGHT, USE)),
        Message(role="user", blocks=(RESULT,)),
    )
    models = TracedModels(Says())  # pyright: ignore[reportArgumentType]
    span = await spanned(lambda: models.resolve("m").call(asked, on_text=lambda _: None))
    shown = {name: json.loads(str(value)) for name, value in (span.attributes or {}).items()}
    assert SECRET not in json.dumps(shown)
    assert "private" not in json.dumps(shown)
    (system,) = shown["gen_ai.system_instructions"]
    assert system["type"] == "text"
    assert system["content"].startswith("be brief ")
    first, call, result = shown["gen_ai.input.messages"]
    assert first == {"role": "user", "parts": [{"type": "text", "content": "read a"}]}
    assert [part["type"] for part in call["parts"]] == ["reasoning", "tool_call"]
    assert call["parts"][1]["arguments"]["path"] == "a"
    assert (result["role"], result["parts"][0]["id"]) == ("tool", "c1")
    (reply,) = shown["gen_ai.output.messages"]
    assert (reply["role"], reply["finish_reason"]) == ("assistant", "end_turn")


async def test_a_tool_shows_arguments_and_a_cut_result() -> None:
    envelope = ToolInvocation(
        run="r", call_id="c", idempotency_key="k", name="fs.read", arguments={"path": SECRET}
    )
    tools = TracedTools(Gives())  # pyright: ignore[reportArgumentType]
    span = await spanned(lambda: tools.call(envelope, ToolGrant.model_construct()))
    shown = span.attributes or {}
    assert json.loads(str(shown["gen_ai.tool.call.arguments"])).keys() == {"path"}
    assert str(shown["gen_ai.tool.call.result"]).endswith(CUT)
    assert SECRET not in str(shown)


async def test_half_a_character_is_a_mark_and_no_failure() -> None:
    models, half = TracedModels(Says()), "a \ud83d b"  # pyright: ignore[reportArgumentType]
    use = USE.model_copy(update={"arguments": {"path": half}})
    asked = request(user_message(half), Message(role="assistant", blocks=(use,)))
    span = await spanned(lambda: models.resolve("m").call(asked, on_text=lambda _: None))
    envelope = ToolInvocation(
        run="r", call_id="c", idempotency_key="k", name="fs.read", arguments={"path": half}
    )
    tools = TracedTools(Gives())  # pyright: ignore[reportArgumentType]
    called = await spanned(lambda: tools.call(envelope, ToolGrant.model_construct()))
    for told in (span, called):
        assert "a \N{REPLACEMENT CHARACTER} b" in str(told.attributes)


async def test_outside_of_a_recorded_span_nothing_is_written() -> None:
    assert not trace.get_current_span().is_recording()
    models = TracedModels(Says())  # pyright: ignore[reportArgumentType]
    reply = await models.resolve("m").call(request(user_message("x")), on_text=lambda _: None)
    assert reply.stop_reason == "end_turn"


@pytest.mark.parametrize("count", [0, 1, 50], ids=["none", "one", "too many"])
def test_an_attribute_is_bounded_and_keeps_the_newest(count: int) -> None:
    text = written([{"at": number, "text": "é" * 1000} for number in range(count)])
    assert len(text.encode()) <= ATTRIBUTE_BYTES
    kept = [item["at"] for item in json.loads(text)]
    assert kept == [*range(count)][len([*range(count)]) - len(kept) :]
    assert len(kept) == min(count, 16)


async def test_a_message_too_long_for_the_attribute_keeps_its_last_parts() -> None:
    results = tuple(
        RESULT.model_copy(update={"call_id": f"c{n}", "text": "é" * 4000}) for n in range(20)
    )
    asked = request(Message(role="user", blocks=results))
    models = TracedModels(Says())  # pyright: ignore[reportArgumentType]
    span = await spanned(lambda: models.resolve("m").call(asked, on_text=lambda _: None))
    text = str((span.attributes or {})["gen_ai.input.messages"])
    assert len(text.encode()) <= ATTRIBUTE_BYTES
    (message,) = json.loads(text)
    assert [part["id"] for part in message["parts"]] == ["c16", "c17", "c18", "c19"]
