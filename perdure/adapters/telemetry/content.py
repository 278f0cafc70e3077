"""Adds the content of requests and replies to spans, if `PERDURE_TRACE_CONTENT=on`.

The attributes are those of OpenTelemetry's GenAI conventions, so that viewers show a conversation:
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/. Known secrets are masked in each
text before it becomes JSON, because JSON's escapes would hide them.
"""

import json
from collections.abc import Callable, Sequence

from opentelemetry import trace
from pydantic import JsonValue

from perdure.adapters.logging.redacting import data_without_secrets, without_secrets
from perdure.adapters.telemetry import conventions as names
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest
from perdure.domain.llm.transcript import (
    AttachmentBlock,
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolOutcome,
    ToolResultBlock,
    ToolUseBlock,
)
from perdure.domain.llm.whole_characters import whole_text
from perdure.domain.ports import ModelClient, Models, ToolHost, UsageSoFar, ignore_usage
from perdure.domain.tools.definitions import (
    Rehearsal,
    ToolDefinition,
    ToolGrant,
    ToolInvocation,
    ToolOutput,
)

# Collectors refuse messages above a few MiB, and a span may hold three such attributes.
ATTRIBUTE_BYTES = 32 * 1024
# What a message holds besides its parts.
FRAME_BYTES = 256
TEXT_CHARACTERS = 4_000
CUT = "… (cut)"


class TracedModels:
    """`Models` whose clients write requests and replies into the current span."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def resolve(self, model: str) -> ModelClient:
        return _TracedClient(self._models.resolve(model))


class _TracedClient:
    def __init__(self, client: ModelClient) -> None:
        self._client = client

    async def card(self, model: str) -> ModelProfile:
        return await self._client.card(model)

    async def count(self, request: ModelRequest) -> int | None:
        return await self._client.count(request)

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        span = trace.get_current_span()
        if not span.is_recording():
            return await self._client.call(request, on_text=on_text, on_answer=on_answer)
        # Before the call, so that one that fails shows what was asked.
        span.set_attribute(names.SYSTEM_INSTRUCTIONS, written([_text(request.system)]))
        span.set_attribute(names.INPUT_MESSAGES, written([_message(m) for m in request.messages]))
        reply = await self._client.call(request, on_text=on_text, on_answer=on_answer)
        said = {**_message(reply.message), "finish_reason": reply.stop_reason}
        span.set_attribute(names.OUTPUT_MESSAGES, written([said]))
        return reply


class TracedTools:
    """A `ToolHost` that writes arguments and results of its calls into the current span."""

    def __init__(self, tools: ToolHost) -> None:
        self._tools = tools

    async def catalog(self) -> tuple[ToolDefinition, ...]:
        return await self._tools.catalog()

    def mended(self, name: str, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
        return self._tools.mended(name, given)

    def output_of(self, outcome: ToolOutcome, value: JsonValue) -> ToolOutput:
        return self._tools.output_of(outcome, value)

    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        span = trace.get_current_span()
        output = await self._tools.call(envelope, grant)
        if span.is_recording():
            span.set_attribute(names.TOOL_ARGUMENTS, _arguments(envelope.arguments))
            span.set_attribute(names.TOOL_RESULT, _shortened(output.text))
        return output

    async def rehearse(self, envelope: ToolInvocation, grant: ToolGrant) -> Rehearsal:
        return await self._tools.rehearse(envelope, grant)


def written(items: Sequence[object]) -> str:
    """The items as a JSON list of at most `ATTRIBUTE_BYTES`; the first are left out if needed."""
    kept = (json.dumps(item, ensure_ascii=False) for item in _newest(items, ATTRIBUTE_BYTES))
    return f"[{','.join(kept)}]"


def _newest(items: Sequence[object], room: int) -> list[object]:
    """The last items, as many as fit into `room` bytes of JSON with commas between them."""
    kept: list[object] = []
    for item in reversed(items):
        room -= len(json.dumps(item, ensure_ascii=False).encode()) + 1
        if room < 0:
            break
        kept.append(item)
    return kept[::-1]


def _message(message: Message) -> dict[str, object]:
    role = "tool" if _only_results(message) else message.role
    # A message that alone fills the attribute loses its first parts, not everything.
    parts = _newest([_part(block) for block in message.blocks], ATTRIBUTE_BYTES - FRAME_BYTES)
    return {"role": role, "parts": parts}


def _only_results(message: Message) -> bool:
    return bool(message.blocks) and all(isinstance(b, ToolResultBlock) for b in message.blocks)


def _part(block: Block) -> dict[str, object]:
    match block:
        case TextBlock():
            return _text(block.text)
        case ThinkingBlock():
            # Only the fact: reasoning has a form of the provider, signed and often unreadable.
            return {"type": "reasoning", "content": ""}
        case ToolUseBlock():
            given = _arguments(block.arguments)
            # JSON of an object ends with a brace, so only a cut text ends with the mark.
            arguments = given if given.endswith(CUT) else json.loads(given)
            return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": arguments}
        case ToolResultBlock():
            response = _shortened(
                "\n".join([block.text, *(one.words for one in block.attachments)])
            )
            return {"type": "tool_call_response", "id": block.call_id, "response": response}
        case AttachmentBlock():
            # A description: files do not belong in a trace.
            return _text(block.file.words)


def _arguments(given: dict[str, JsonValue]) -> str:
    text = whole_text(json.dumps(data_without_secrets(given), ensure_ascii=False))
    return text if len(text) <= TEXT_CHARACTERS else text[:TEXT_CHARACTERS] + CUT


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "content": _shortened(text)}


def _shortened(text: str) -> str:
    said = whole_text(without_secrets(text))
    return said if len(said) <= TEXT_CHARACTERS else said[:TEXT_CHARACTERS] + CUT
