"""Reads a streamed answer of the Messages API block by block; its usage is known at any moment."""

from dataclasses import dataclass, field
from typing import get_args

from anthropic.types import (
    MessageDeltaUsage,
    RawContentBlockDeltaEvent,
    RawContentBlockStartEvent,
    RawMessageStreamEvent,
)
from anthropic.types import Usage as WireUsage
from pydantic import JsonValue, TypeAdapter

from perdure.adapters.llm.tool_arguments import Arguments, read_arguments
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.requests import CUT_SHORT, StopReason
from perdure.domain.llm.transcript import Block, TextBlock, ThinkingBlock, ToolUseBlock
from perdure.domain.llm.usage import Usage

_OBJECT = TypeAdapter(dict[str, JsonValue])
_STOPS = {reason: reason for reason in get_args(StopReason)}
_STOPS["model_context_window_exceeded"] = "context_end"
# The last block of such an answer may be incomplete: the token limit or a safety filter cut it.
_HALF = CUT_SHORT | {"refusal"}
# The deltas of each kind of block; a kind that is not listed may have any.
_PIECES = {
    "text": {"text_delta", "citations_delta"},
    "tool_use": {"input_json_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
}
# Without its `message_start` an answer has no model and no prompt usage, and more may be lost.
_AFTER_THE_HEAD = {
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
}
_KNOWN_PIECES = frozenset[str]().union(*_PIECES.values())


@dataclass(slots=True)
class _OpenBlock:
    """A content block while its deltas arrive; `native` is the block of its first event."""

    native: dict[str, JsonValue]
    closed: bool = False
    text: list[str] = field(default_factory=list[str])
    thinking: list[str] = field(default_factory=list[str])
    arguments: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class StreamState:
    """The answer read so far.

    Malformed and contradictory events raise ordinary errors of Python, which the caller turns into
    facts. The first event has the usage of the prompt and one token of output, the last the whole
    usage (`usage_told`). Until then the output is our own count of what was streamed.
    """

    begun: bool = False
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    usage_told: bool = False
    provider_stop: str | None = None
    _blocks: dict[int, _OpenBlock] = field(default_factory=dict[int, _OpenBlock])

    def feed(self, event: RawMessageStreamEvent) -> str | None:
        """Add one event; returns the text that it adds."""
        if not self.begun and event.type in _AFTER_THE_HEAD:
            raise ValueError(f"a {event.type} came before the message began")
        match event.type:
            case "message_start":
                if not event.message.id:
                    raise ValueError("message without id")
                if self.begun:
                    raise ValueError("a second message began inside the first")
                self.begun = True
                self.model = event.message.model
                self.usage = _first_usage(event.message.usage)
            case "content_block_start":
                return self._open(event)
            case "content_block_delta":
                return self._extend(event)
            case "message_delta":
                self._stop(event.delta.stop_reason)
                self._end(event.usage)
            case "content_block_stop":
                self._blocks[event.index].closed = True
            case "message_stop":
                pass
        return None

    def used(self) -> Usage:
        """What the attempt has used so far; reported by the provider if `usage_told`."""
        if self.usage_told:
            return self.usage
        streamed = estimate(self._streamed()).total
        return self.usage.model_copy(
            update={"output_tokens": max(self.usage.output_tokens, streamed)}
        )

    def _streamed(self) -> str:
        pieces: list[str] = []
        for block in self._blocks.values():
            pieces += [*block.text, *block.thinking, *block.arguments]
        return "".join(pieces)

    def _stop(self, reason: str | None) -> None:
        if reason and self.provider_stop not in {None, reason}:
            raise ValueError(f"it ended as {self.provider_stop!r} and as {reason!r}")
        self.provider_stop = reason or self.provider_stop

    def _end(self, usage: MessageDeltaUsage | None) -> None:
        # Some gateways leave the usage out, although the SDK declares it: it validates nothing.
        if usage is None:
            return
        self.usage = _later_usage(self.usage, usage)
        # No prompt is empty, and no text costs nothing: zeros and nulls of a gateway would book a
        # paid call as free.
        told = "output_tokens" in usage.model_fields_set and self.usage.prompt_tokens > 0
        self.usage_told = told and (bool(usage.output_tokens) or not self._streamed())

    @property
    def stop_reason(self) -> StopReason | None:
        """The provider's stop reason as ours; None for an unknown one."""
        return _STOPS.get(self.provider_stop or "")

    def blocks(self, *, model: str) -> tuple[Block, ...]:
        """The finished blocks in order; tool calls keep their wire names.

        A tool call or thinking block that the token limit or a refusal cut short is left out: half
        an argument must never be acted on. `cut_call` names a call that the limit cut.
        """
        ordered = [self._blocks[index] for index in sorted(self._blocks)]
        cut = self.stop_reason in _HALF
        finished = [
            _finished(block, model=model, tolerant=cut and block is ordered[-1])
            for block in ordered
        ]
        return tuple(block for block in finished if block is not None)

    @property
    def cut_call(self) -> str:
        """The wire name of the tool whose call the token limit cut short, or nothing."""
        if self.stop_reason not in CUT_SHORT or not self._blocks:
            return ""
        last = self._blocks[max(self._blocks)]
        if last.native["type"] != "tool_use" or _tool_use(last, tolerant=True) is not None:
            return ""
        return str(last.native["name"])

    def _open(self, event: RawContentBlockStartEvent) -> str | None:
        if self.provider_stop is not None:
            raise ValueError("a block began after the end")
        if event.index in self._blocks:
            raise ValueError(f"block {event.index} began twice")
        native = _OBJECT.validate_python(event.content_block.to_dict(mode="json"))
        self._blocks[event.index] = block = _OpenBlock(native)
        if event.content_block.type == "text" and event.content_block.text:
            block.text.append(event.content_block.text)
            return event.content_block.text
        return None

    def _extend(self, event: RawContentBlockDeltaEvent) -> str | None:
        block, delta = self._blocks[event.index], event.delta
        if block.closed or self.provider_stop is not None:
            raise ValueError(f"block {event.index} went on after its end")
        kind = str(block.native["type"])
        if delta.type in _KNOWN_PIECES - _PIECES.get(kind, _KNOWN_PIECES):
            raise ValueError(f"a {delta.type} in a block of kind {kind!r}")
        match delta.type:
            case "text_delta":
                block.text.append(delta.text)
                return delta.text
            case "input_json_delta":
                block.arguments.append(delta.partial_json)
            case "thinking_delta":
                block.thinking.append(delta.thinking)
            case "signature_delta":
                block.native["signature"] = delta.signature
            case "citations_delta":
                pass
        return None


def _finished(block: _OpenBlock, *, model: str, tolerant: bool) -> Block | None:
    native = block.native
    match native["type"]:
        case "text":
            text = "".join(block.text)
            return TextBlock(type="text", text=text) if text else None
        case "tool_use":
            return _tool_use(block, tolerant=tolerant)
        case "thinking":
            # The API refuses thinking without its signature when it is sent back.
            if tolerant and not native.get("signature"):
                return None
            said = str(native.get("thinking") or "") + "".join(block.thinking)
            return ThinkingBlock(type="thinking", model=model, native={**native, "thinking": said})
        case _:
            # Redacted thinking and kinds that nobody here knows go back to this model as they came.
            return ThinkingBlock(type="thinking", model=model, native=native)


def _tool_use(block: _OpenBlock, *, tolerant: bool) -> ToolUseBlock | None:
    written = "".join(block.arguments)
    if tolerant and not written:
        return None
    # Its arguments were lost on the way, and it must not run with none.
    if not written and not block.closed:
        raise ValueError(f"the call of {block.native['name']!r} never came to its arguments")
    if written:
        arguments = read_arguments(written)
    else:
        arguments = Arguments(_OBJECT.validate_python(block.native.get("input") or {}))
    if tolerant and not arguments.whole:
        return None
    return ToolUseBlock(
        type="tool_use",
        id=str(block.native["id"]),
        name=str(block.native["name"]),
        arguments=arguments.values,
        unreadable=arguments.wrong,
    )


def _first_usage(usage: WireUsage | None) -> Usage:
    if usage is None:
        return Usage()
    written = usage.cache_creation_input_tokens or 0
    split = usage.cache_creation
    hour = split.ephemeral_1h_input_tokens if split else 0
    five = split.ephemeral_5m_input_tokens if split else 0
    return Usage(
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cache_read_tokens=usage.cache_read_input_tokens or 0,
        # Without the split, all that was written counts as written for five minutes.
        cache_write_5m_tokens=max(five, written - hour),
        cache_write_1h_tokens=hour,
    )


def _later_usage(known: Usage, usage: MessageDeltaUsage) -> Usage:
    """The counts of a later event are totals, not deltas; those that it leaves out stay."""
    written = usage.cache_creation_input_tokens
    five = known.cache_write_5m_tokens
    if written is not None:
        five = max(0, written - known.cache_write_1h_tokens)
    return Usage(
        input_tokens=_newer(usage.input_tokens, known.input_tokens),
        output_tokens=_newer(usage.output_tokens, known.output_tokens),
        cache_read_tokens=_newer(usage.cache_read_input_tokens, known.cache_read_tokens),
        cache_write_5m_tokens=five,
        cache_write_1h_tokens=known.cache_write_1h_tokens,
    )


def _newer(value: int | None, known: int) -> int:
    return known if value is None else value
