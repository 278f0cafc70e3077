"""The Responses API: the request, and the reader of a streamed answer.

The provider stores nothing (`store` is false): each call sends the whole conversation. The model's
reasoning is part of it, as encrypted items that only the same model can read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

from perdure.adapters.llm.call_failures import ProviderError, SaidError
from perdure.adapters.llm.conversation import WireTurn, turns_of, wire_id, wire_name
from perdure.adapters.llm.error_kinds import unsent_error
from perdure.adapters.llm.finish_reasons import stop_of
from perdure.adapters.llm.openai_dialects.chat import (
    Body,
    result_text,
    seed_of,
    tool_choice,
    written,
)
from perdure.adapters.llm.openai_dialects.events import (
    OutputItem,
    ResponseBody,
    ResponsesEvent,
    WholeResponse,
    split_usage,
)
from perdure.adapters.llm.openai_dialects.structured import ANSWER, takes_strictly
from perdure.adapters.llm.openai_dialects.tool_calls import OpenCall, with_own_ids
from perdure.adapters.llm.wire_files import Files, responses_part
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.requests import CUT_SHORT, ModelProfile, ModelRequest, StopReason
from perdure.domain.llm.transcript import (
    AttachmentBlock,
    Block,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from perdure.domain.llm.usage import Usage

PATH = "/responses"
COUNT_PATH = "/responses/input_tokens"
# The API refuses a lower `max_output_tokens`.
LEAST_TOKENS = 16
_COUNTED = ("model", "input", "instructions", "tools", "tool_choice", "text", "reasoning")
_ENDED = {"completed", "incomplete", "failed"}
_OUTPUT = ("response.output_", "response.function_call_", "response.refusal.")


def responses_body(request: ModelRequest, *, model: str, card: ModelProfile) -> Body:
    """The body of one call.

    Raises:
        ModelError: kind `bad_request`, nothing sent.
    """
    body: Body = {
        "model": model,
        "input": [
            item
            for turn in turns_of(request.messages, model=request.model)
            for item in _items(turn, request.files)
        ],
        "max_output_tokens": max(request.max_tokens, LEAST_TOKENS),
        "store": False,
        "stream": True,
    }
    if request.system.strip():
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": wire_name(tool.name),
                "description": tool.description,
                "parameters": tool.parameters,
                # Otherwise the API would refuse schemas that are not in its strict form.
                "strict": False,
            }
            for tool in request.tools
        ]
        body["tool_choice"] = tool_choice(request.tool_choice, nested=False)
    if request.json_schema is not None:
        strict = takes_strictly(request.json_schema)
        body["text"] = {
            "format": {
                "type": "json_schema",
                "name": ANSWER,
                "schema": request.json_schema,
                "strict": strict,
            }
        }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if (effort := _effort(request)) is not None:
        body["reasoning"] = {"effort": effort}
    # A model of which nobody here knows whether it reasons refuses `include` if it does not; one
    # that is told how hard to think does.
    if card.effort or (card.effort is None and effort not in (None, "none")):
        body["include"] = ["reasoning.encrypted_content"]
    return body


def counted_part(body: Body) -> Body:
    """The fields of a call's body that the endpoint for counting accepts."""
    return {name: body[name] for name in _COUNTED if name in body}


def _effort(request: ModelRequest) -> str | None:
    """The reasoning effort: OpenAI has one scale for thinking and effort, from `none` on."""
    match request.thinking:
        case "off":
            return "none"
        case None | "adaptive":
            return request.effort
        case _:
            raise unsent_error(
                f"{request.model} takes no number of tokens to think with. Set `effort` instead."
            )


def _items(turn: WireTurn, files: Files) -> Iterator[JsonValue]:
    for at, block in enumerate(turn.blocks):
        match block:
            case TextBlock():
                yield {"role": turn.role, "content": block.text}
            case ThinkingBlock():
                # The API refuses a reasoning item that no other item of its turn follows, and one
                # without its content, which it would look for among what it has stored.
                followed = any(not isinstance(one, ThinkingBlock) for one in turn.blocks[at + 1 :])
                if followed and block.native.get("encrypted_content"):
                    yield dict(block.native)
            case ToolUseBlock():
                yield {
                    "type": "function_call",
                    "call_id": wire_id(block.id),
                    "name": wire_name(block.name),
                    "arguments": written(block),
                }
            case ToolResultBlock():
                yield {
                    "type": "function_call_output",
                    "call_id": wire_id(block.call_id),
                    "output": _output(block, files),
                }
            case AttachmentBlock():
                yield {"role": turn.role, "content": [responses_part(block.file, files)]}


def _output(block: ToolResultBlock, files: Files) -> JsonValue:
    text = result_text(block)
    if not block.attachments:
        return text
    shown = [responses_part(one, files) for one in block.attachments]
    return [{"type": "input_text", "text": text}, *shown]


@dataclass(slots=True)
class _OpenItem:
    """One item of the output while it arrives."""

    kind: str
    texts: list[str] = field(default_factory=list[str])
    refusals: list[str] = field(default_factory=list[str])
    thoughts: list[str] = field(default_factory=list[str])
    call: OpenCall = field(default_factory=OpenCall)
    native: dict[str, JsonValue] | None = None


@dataclass(slots=True)
class ResponsesReading:
    """The answer read so far; errors as in `ChatReading`. The last event has the usage."""

    request: ModelRequest
    model: str | None = None
    provider_stop: str | None = None
    usage_told: bool = False
    incomplete: bool = False
    _usage: Usage = field(default_factory=Usage)
    _items: dict[str, _OpenItem] = field(default_factory=dict[str, _OpenItem])

    def feed(self, event: object, /) -> str | None:
        """Add one event, or a whole response in its place; returns the text that it adds."""
        if isinstance(event, dict) and "type" not in event and {"output", "error"} & event.keys():
            return self._whole(WholeResponse.model_validate(event))
        told = ResponsesEvent.model_validate(event)
        if self.provider_stop is not None and told.type.startswith(_OUTPUT):
            raise ValueError(f"a {told.type} came after the end")
        match told.type:
            case "error":
                raise _failure(told)
            case "response.created" | "response.in_progress":
                self.model = (told.response and told.response.model) or self.model
            case "response.completed" | "response.incomplete" | "response.failed":
                self._end(told.response)
            case "response.output_item.added" | "response.output_item.done":
                return self._item(told)
            case _:
                return self._extend(told)
        return None

    def used(self) -> Usage:
        """What the attempt has used so far; reported by the provider if `usage_told`."""
        if self.usage_told:
            return self._usage
        return Usage(output_tokens=estimate(self._streamed()).total)

    def _streamed(self) -> str:
        pieces: list[str] = []
        for item in self._items.values():
            pieces += [*item.texts, *item.refusals, *item.thoughts, *item.call.arguments]
        return "".join(pieces)

    @property
    def stop_reason(self) -> StopReason | None:
        """The provider's stop reason as ours; None for an unknown one."""
        stop = stop_of(self.provider_stop)
        if self.incomplete and stop not in CUT_SHORT | {"refusal"}:
            # It says that the answer is not whole, for a reason of its own: as if cut by a limit.
            return "max_tokens"
        if stop != "end_turn":
            return stop
        items = self._items.values()
        if any(item.kind == "function_call" for item in items):
            return "tool_use"
        refused_all = any(item.refusals for item in items) and not any(i.texts for i in items)
        return "refusal" if refused_all else stop

    def blocks(self, *, model: str) -> tuple[Block, ...]:
        """The finished items in order, without a call or reasoning that was cut short."""
        ordered = list(self._items.values())
        cut = self.stop_reason in CUT_SHORT | {"refusal"}
        made: list[Block] = []
        for item in ordered:
            block = _finished(item, model=model, tolerant=cut and item is ordered[-1])
            made += [block] if block is not None else []
        calls = [block for block in made if isinstance(block, ToolUseBlock)]
        seed = seed_of(self.request.context.key)
        own = with_own_ids(calls, before=self.request.messages, seed=seed)
        return tuple(next(own) if isinstance(block, ToolUseBlock) else block for block in made)

    @property
    def cut_call(self) -> str:
        """The wire name of the tool whose call the token limit cut short, or nothing."""
        if self.stop_reason not in CUT_SHORT or not self._items:
            return ""
        last = list(self._items.values())[-1]
        if last.kind != "function_call" or last.call.finished(tolerant=True) is not None:
            return ""
        return last.call.name

    def _whole(self, response: WholeResponse) -> str:
        """Add all items, and the end; without one of these states it is no answer yet."""
        done = "response.output_item.done"
        items = [ResponsesEvent(type=done, item=item) for item in response.output or ()]
        text = "".join(filter(None, map(self._item, items)))
        if response.error is not None or response.status in _ENDED:
            self._end(response)
        return text

    def _item(self, told: ResponsesEvent) -> str | None:
        given = OutputItem.model_validate(told.item or {})
        name = given.id or _place(told) or f"#{len(self._items)}"
        item = self._items.setdefault(name, _OpenItem(given.type))
        if given.type == "function_call":
            item.call.id = given.call_id or given.id or ""
            item.call.name = given.name or item.call.name
        if told.type != "response.output_item.done":
            return None
        match given.type:
            case "function_call":
                item.call.arguments, item.call.closed = [given.arguments or ""], True
            case "reasoning":
                item.native = {name: v for name, v in (told.item or {}).items() if v is not None}
            # Only if no deltas came before, or the text would be there twice.
            case "message" if not item.texts and not item.refusals:
                parts = given.content or ()
                item.refusals = [part.refusal for part in parts if part.refusal]
                item.texts = [part.text for part in parts if part.text]
                return "".join(item.texts)
            case _:
                pass
        return None

    def _extend(self, told: ResponsesEvent) -> str | None:
        kinds = {
            "response.output_text.delta": "texts",
            "response.refusal.delta": "refusals",
            "response.reasoning_text.delta": "thoughts",
            "response.reasoning_summary_text.delta": "thoughts",
        }
        name = told.item_id or _place(told)
        if told.type == "response.function_call_arguments.delta":
            self._items[name].call.arguments.append(told.delta or "")
        if told.type in kinds and told.delta:
            pieces: list[str] = getattr(self._items[name], kinds[told.type])
            pieces.append(told.delta)
        return told.delta if told.type == "response.output_text.delta" else None

    def _end(self, response: ResponseBody | None) -> None:
        if response is None:
            raise ValueError("an end without its response")
        self.model = response.model or self.model
        # The usage first: an answer that failed is paid for as well.
        usage = response.usage
        if usage is not None and usage.input_tokens and usage.output_tokens is not None:
            cache = usage.input_tokens_details
            self._usage = split_usage(usage.input_tokens, usage.output_tokens, cache)
            # No text costs nothing: a zero of a gateway would book a paid call as free.
            self.usage_told = usage.output_tokens > 0 or not self._streamed()
        if response.status == "failed" or response.error is not None:
            error = response.error
            code = str(error.code) if error and error.code else "server_error"
            message = (error and error.message) or "the answer failed"
            raise SaidError(ProviderError(status=200, message=message, type=code))
        why = response.incomplete_details
        self.incomplete = response.status == "incomplete"
        word = (why and why.reason) or "incomplete"
        self.provider_stop = word if self.incomplete else "completed"


def _place(told: ResponsesEvent) -> str:
    """The name of an item that has no id: its place in the output."""
    return "" if told.output_index is None else f"#{told.output_index}"


def _failure(told: ResponsesEvent) -> SaidError:
    inner = told.error
    code = (inner and inner.code) or told.code
    code = None if str(code).isdigit() else code  # a number only repeats a status
    message = (inner and inner.message) or told.message or "no reason was given"
    kind = (inner and inner.type) or (str(code) if code else None)
    return SaidError(
        ProviderError(status=200, message=message, type=kind, code=str(code) if code else None)
    )


def _finished(item: _OpenItem, *, model: str, tolerant: bool) -> Block | None:
    match item.kind:
        case "message":
            text = "".join(item.texts) or "".join(item.refusals)
            return TextBlock(type="text", text=text) if text else None
        case "function_call":
            return item.call.finished(tolerant=tolerant)
        case "reasoning":
            if item.native is None:
                return None
            return ThinkingBlock(type="thinking", model=model, native=item.native)
        case _:
            return None
