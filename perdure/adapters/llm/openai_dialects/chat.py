"""Chat completions: the request, and the reader of a streamed answer."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

from perdure.adapters.llm.call_failures import ProviderError, SaidError
from perdure.adapters.llm.conversation import NO_OUTPUT, WireTurn, turns_of, wire_id, wire_name
from perdure.adapters.llm.finish_reasons import stop_of
from perdure.adapters.llm.openai_dialects.events import (
    ChatChunk,
    ChatDelta,
    ChatToolCall,
    ChatUsage,
    ServerError,
    split_usage,
)
from perdure.adapters.llm.openai_dialects.server import status_in
from perdure.adapters.llm.openai_dialects.structured import ANSWER, in_prompt, takes_strictly
from perdure.adapters.llm.openai_dialects.tool_calls import OpenCall, with_own_ids
from perdure.adapters.llm.wire_files import FROM_TOOLS, Files, chat_part
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.requests import CUT_SHORT, ModelRequest, StopReason, ToolOffer
from perdure.domain.llm.transcript import (
    AttachmentBlock,
    Block,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from perdure.domain.llm.usage import Usage

PATH = "/chat/completions"
Body = dict[str, JsonValue]
# After these, what the answer holds says more than its finish reason.
_ENDS = {"end_turn", "stop_sequence", "tool_use"}


def chat_body(
    request: ModelRequest, *, model: str, json_schema: bool = True, streaming: bool = True
) -> Body:
    """The body of one call.

    Args:
        request: what is asked.
        model: the model's name at the server.
        json_schema: whether the server accepts a schema; otherwise the prompt states it.
        streaming: whether the server streams.

    Raises:
        ModelError: kind `bad_request`, nothing sent.
    """
    system = request.system
    wanted = request.json_schema
    if wanted is not None and not json_schema:
        system = f"{system}\n\n{in_prompt(wanted)}".strip()
    messages: list[JsonValue] = []
    if system.strip():
        messages.append({"role": "system", "content": system})
    # Without a model's name all thinking is dropped: this dialect has no place for it.
    for turn in turns_of(request.messages, model=""):
        messages += _said(turn, request.files)
    # The old name `max_tokens`: every server knows it, few know `max_completion_tokens`.
    body: Body = {"model": model, "messages": messages, "max_tokens": request.max_tokens}
    if streaming:
        # Without this option a stream ends without usage.
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if wanted is not None and json_schema:
        shape: Body = {"name": ANSWER, "schema": wanted, "strict": takes_strictly(wanted)}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body["tool_choice"] = tool_choice(request.tool_choice, nested=True)
    manner = {
        "temperature": request.temperature,
        "seed": request.seed,
        "reasoning_effort": request.effort,
    }
    return body | {name: value for name, value in manner.items() if value is not None}


def tool_choice(choice: str, *, nested: bool) -> JsonValue:
    """Our choice of tools in OpenAI's form; `nested`: chat completions put the name deeper."""
    if choice in {"auto", "none"}:
        return choice
    if choice == "any":
        return "required"
    named: JsonValue = {"name": wire_name(choice)}
    return {"type": "function", "function": named} if nested else {"type": "function", **named}


def result_text(block: ToolResultBlock) -> str:
    """A tool's result. Neither dialect has a field for failure, so the text begins with it."""
    text = block.text or NO_OUTPUT
    return text if block.outcome == "ok" else f"({block.outcome.replace('_', ' ')}) {text}"


def _tool(tool: ToolOffer) -> JsonValue:
    return {
        "type": "function",
        "function": {
            "name": wire_name(tool.name),
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


def _said(turn: WireTurn, files: Files) -> Iterator[JsonValue]:
    text = "\n\n".join(block.text for block in turn.blocks if isinstance(block, TextBlock))
    if turn.role == "user":
        for block in turn.blocks:
            if isinstance(block, ToolResultBlock):
                called = wire_id(block.call_id)
                yield {"role": "tool", "tool_call_id": called, "content": result_text(block)}
        if shown := _shown(turn, files):
            asked: list[JsonValue] = [{"type": "text", "text": text}] if text else []
            yield {"role": "user", "content": [*shown, *asked]}
        elif text:
            yield {"role": "user", "content": text}
        return
    calls: list[JsonValue] = [
        {
            "id": wire_id(block.id),
            "type": "function",
            "function": {"name": wire_name(block.name), "arguments": written(block)},
        }
        for block in turn.blocks
        if isinstance(block, ToolUseBlock)
    ]
    message: Body = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    yield message


def _shown(turn: WireTurn, files: Files) -> list[JsonValue]:
    """The images and PDFs of a turn. Tool messages hold only text, so theirs follow here too."""
    of_tools: list[JsonValue] = [
        chat_part(one, files)
        for block in turn.blocks
        if isinstance(block, ToolResultBlock)
        for one in block.attachments
    ]
    own: list[JsonValue] = [
        chat_part(block.file, files) for block in turn.blocks if isinstance(block, AttachmentBlock)
    ]
    return [*([{"type": "text", "text": FROM_TOOLS}] if of_tools else []), *of_tools, *own]


def written(call: ToolUseBlock) -> str:
    """The arguments of a call as JSON text, as both dialects want them."""
    return json.dumps(call.arguments, ensure_ascii=False)


@dataclass(slots=True)
class ChatReading:
    """The answer read so far, from the chunks of a stream or from a whole answer.

    Malformed and contradictory chunks raise ordinary errors of Python, which the caller turns into
    facts. The usage comes with or after the last piece of an answer that has ended (`usage_told`),
    so a stream that breaks off has none; until then the output is our own count of what was
    streamed, or a higher one that the server gave on the way.
    """

    request: ModelRequest
    model: str | None = None
    provider_stop: str | None = None
    _usage: Usage | None = None
    _told_at: int = 0
    _texts: list[str] = field(default_factory=list[str])
    _thoughts: list[str] = field(default_factory=list[str])
    _refusals: list[str] = field(default_factory=list[str])
    _calls: list[tuple[int, OpenCall]] = field(default_factory=list[tuple[int, OpenCall]])

    def feed(self, event: object, /) -> str | None:
        """Add one chunk; returns the text that it adds."""
        chunk = ChatChunk.model_validate(event)
        if chunk.error:
            raise _told(chunk.error)
        self.model = chunk.model or self.model
        told = chunk.usage is not None and self._account(chunk.usage)
        added: str | None = None
        for choice in chunk.choices or ():
            # We ask for one answer, and would mix the texts of two.
            if choice.index != 0:
                raise ValueError("an answer was given twice")
            said = choice.delta or choice.message
            if said is not None:
                added = self._say(said, whole=choice.delta is None)
            self._stop(choice.finish_reason)
        if told:
            self._told_at = self._streamed
        return added

    def used(self) -> Usage:
        """What the attempt has used so far; reported by the provider if `usage_told`."""
        usage = self._usage or Usage()
        if self.usage_told:
            return usage
        pieces = [*self._texts, *self._thoughts, *self._refusals]
        for _, call in self._calls:
            pieces += call.arguments
        streamed = estimate("".join(pieces)).total
        return usage.model_copy(update={"output_tokens": max(usage.output_tokens, streamed)})

    @property
    def usage_told(self) -> bool:
        """Whether the usage is that of the whole answer: some servers tell one with each chunk.

        Others tell one with the first chunk alone, or no output beside a whole text.
        """
        if self._usage is None or self.provider_stop is None or self._told_at < self._streamed:
            return False
        return self._usage.output_tokens > 0 or not self._streamed

    @property
    def _streamed(self) -> int:
        """How many pieces have come."""
        words = len(self._texts) + len(self._thoughts) + len(self._refusals)
        return words + sum(1 + len(call.arguments) for _, call in self._calls)

    @property
    def stop_reason(self) -> StopReason | None:
        """The provider's stop reason as ours; None for an unknown one."""
        stop = stop_of(self.provider_stop)
        if stop not in _ENDS:
            return stop
        if self._calls:
            return "tool_use"  # many servers also say `stop` after a call
        return "refusal" if self._refusals and not self._texts else stop

    def blocks(self, *, model: str) -> tuple[Block, ...]:
        """The blocks, without a call that the token limit or a refusal cut short."""
        # Without its calls, the text would be taken for the final answer.
        if self.stop_reason == "tool_use" and not self._calls:
            raise ValueError("it ended for tool calls and has none")
        calls = [call for call in map(self._finished, range(len(self._calls))) if call is not None]
        text = "".join(self._texts) or "".join(self._refusals)
        said = [TextBlock(type="text", text=text)] if text else []
        own = with_own_ids(
            calls, before=self.request.messages, seed=seed_of(self.request.context.key)
        )
        return (*said, *own)

    @property
    def cut_call(self) -> str:
        """The wire name of the tool whose call the token limit cut short, or nothing."""
        if self.stop_reason not in CUT_SHORT or not self._calls:
            return ""
        whole = self._finished(len(self._calls) - 1)
        return self._calls[-1][1].name if whole is None else ""

    def _finished(self, at: int) -> ToolUseBlock | None:
        cut = self.stop_reason in CUT_SHORT | {"refusal"} and at == len(self._calls) - 1
        return self._calls[at][1].finished(tolerant=cut)

    def _say(self, said: ChatDelta, *, whole: bool) -> str | None:
        more = said.content or said.refusal or said.tool_calls
        if more and self.provider_stop is not None:
            raise ValueError("the answer went on after its end")
        self._thoughts += filter(None, (said.reasoning_content, said.reasoning))
        self._refusals += filter(None, (said.refusal,))
        for piece in said.tool_calls or ():
            self._extend(piece, whole=whole)
        if not said.content:
            return None
        self._texts.append(said.content)
        return said.content

    def _extend(self, piece: ChatToolCall, *, whole: bool) -> None:
        """Add a piece to the call that it belongs to, or begin another; `whole`: it is a call."""
        call = None if whole and _names_tool(piece) else self._open(piece)
        if call is None:
            call = OpenCall()
            self._calls.append((piece.index or 0, call))
        call.id = call.id or piece.id or ""
        if piece.function is not None:
            call.name = call.name or piece.function.name or ""
            call.arguments += filter(None, (piece.function.arguments,))

    def _open(self, piece: ChatToolCall) -> OpenCall | None:
        """The call with the index of a piece, unless its id or name says that it is another."""
        # The newest of an index: where all calls share one, only their first pieces have ids.
        known = reversed(self._calls)
        call = next((one for index, one in known if index == (piece.index or 0)), None)
        # A call that has no id yet may get it with a later piece.
        other = call is not None and call.id and piece.id not in {None, "", call.id}
        if self._calls and (piece.index is None or other):
            # Some servers give all calls of an answer the same index, or none, and tell them apart
            # by id.
            call = next((one for _, one in self._calls if piece.id and one.id == piece.id), None)
            if not piece.id:
                call = self._calls[-1][1]
        # Without ids, only a name after whole arguments tells that another call begins.
        another = (
            call is not None and not (call.id or piece.id) and _names_tool(piece) and call.is_whole
        )
        return None if another else call

    def _stop(self, reason: str | None) -> None:
        if reason and self.provider_stop not in {None, reason}:
            raise ValueError(f"it ended as {self.provider_stop!r} and as {reason!r}")
        self.provider_stop = reason or self.provider_stop
        for _, call in self._calls:
            # Chunks do not say where a call ends, so all calls end with the answer.
            call.closed = self.provider_stop is not None

    def _account(self, usage: ChatUsage) -> bool:
        """Take a usage; whether it was one."""
        prompt, output = usage.prompt_tokens, usage.completion_tokens
        # Some servers send zeros, or half of it, which is no usage to book.
        if not prompt or output is None:
            return False
        # Gemini and xAI leave thoughts out of the answer's tokens, and bill them as output all the
        # same: only the total has them.
        output = max(output, (usage.total_tokens or 0) - prompt)
        self._usage = split_usage(prompt, output, usage.prompt_tokens_details)
        return True


def _names_tool(piece: ChatToolCall) -> bool:
    """Whether a piece of a call has the name of its tool, as the first has."""
    return piece.function is not None and bool(piece.function.name)


def _told(error: ServerError | str) -> SaidError:
    if isinstance(error, str):
        return SaidError(ProviderError(status=200, message=error))
    code = str(error.code or "")
    status = status_in(code) or 200
    word = None if code.isdigit() else code or None
    message = error.message or "no reason was given"
    kind = error.type or word
    return SaidError(ProviderError(status=status, message=message, type=kind, code=word))


def seed_of(key: str) -> str:
    """A short name of a call, for ids of its tool calls."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]
