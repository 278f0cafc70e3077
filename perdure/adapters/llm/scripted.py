"""The scripted model: deterministic replies from a file, for tests, examples and documentation.

Its name is `scripted:` and the address of the script in the blob store, optionally with a label
after `#`. It is used only where a task names it, never as a substitute for a real model.
"""

import asyncio
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass

from perdure.adapters.llm.error_kinds import kind_of, unsent_error
from perdure.adapters.llm.script import Entry, Script, ScriptError, parse_script
from perdure.adapters.llm.script_cursor import LABEL, ScriptCursor, visible_text
from perdure.adapters.retry_after import retry_after_of
from perdure.domain.foundation.errors import InvalidInput, StoreAway, StoreError
from perdure.domain.foundation.errors import NotFound as BlobNotFound
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.errors import ModelError, ModelFacts
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest, StopReason
from perdure.domain.llm.transcript import Block, Message, TextBlock, ToolUseBlock
from perdure.domain.llm.usage import Usage
from perdure.domain.ports import BlobStore, RecordStore, UsageSoFar, ignore_usage

PREFIX = "scripted:"
PIECE_CHARACTERS = 24
REFUSAL = "refusal"
KEPT = ("sha256:", "hmac:")  # how addresses in the blob store begin
# Errors of calls that never reached a provider, so their attempt costs nothing.
NOT_REACHED = frozenset({"connection", "unavailable"})


@dataclass(frozen=True, slots=True)
class _Said:
    """The answer of an entry to one request, before it is streamed."""

    blocks: tuple[Block, ...]
    stop_reason: StopReason
    usage: Usage
    cut_call: str = ""


class ScriptedModel:
    """Plays scripts from the blob store, with the cursor in the record store."""

    def __init__(self, blobs: BlobStore, records: RecordStore) -> None:
        self._blobs = blobs
        self._cursor = ScriptCursor(records)
        self._scripts: dict[str, Script] = {}

    async def card(self, model: str) -> ModelProfile:
        """Price and window as the script states them; price 0 and a large window by default."""
        script = await self._script(model)
        return ModelProfile(
            name=model,
            price=script.price.price(),
            window=script.window,
            max_output=script.max_output,
            attachments=script.attachments,
        )

    async def count(self, request: ModelRequest) -> int | None:
        """The prompt tokens that the next matching entry will report; None if none is left."""
        script = await self._script(request.model)
        index = await self._cursor.peek(script, request, address=_address(request.model))
        if index is None:
            return None
        return _said(script, script.replies[index], request, index).usage.prompt_tokens

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        """Play the next matching entry, spread over its `delay_s`; can be cancelled."""
        script = await self._script(request.model)
        address = _address(request.model)
        index, entry = await self._cursor.take(script, request, address=address)
        said = _said(script, entry, request, index)
        on_answer(lambda: said.usage)
        await _stream(said.blocks, entry.delay_s, on_text)
        request_id = f"req_scripted_{_digest(request.context.key, str(request.context.attempt))}"
        if entry.failure and entry.failure.kind != REFUSAL:
            # A failed attempt costs only what its own entry states: the defaults are of replies.
            used = said.usage if entry.usage else Usage()
            raise _failure(entry.failure, used, request_id)
        return ModelReply(
            message=Message(role="assistant", blocks=said.blocks),
            stop_reason=said.stop_reason,
            usage=said.usage,
            model=request.model,
            request_id=request_id,
            cut_call=said.cut_call,
        )

    async def _script(self, model: str) -> Script:
        # By address, which is a hash of the content, so no entry becomes stale.
        address = _address(model)
        if address not in self._scripts:
            self._scripts[address] = await self._load(model, address)
        return self._scripts[address]

    async def _load(self, model: str, address: str) -> Script:
        try:
            return parse_script(await self._blobs.get_text(address), source=model)
        except BlobNotFound as error:
            raise unsent_error(_missing(model, address), kind="unknown_model") from error
        except InvalidInput as error:
            raise unsent_error(str(error)) from error
        except StoreAway:
            raise  # the step waits for the store; it is no failure of the model
        except StoreError as error:
            raise unsent_error(f"The script cannot be read: {error}", kind="unavailable") from error


def _missing(model: str, address: str) -> str:
    if address.startswith(KEPT):
        return f"The script of {model} is not in the store. Submit the run again."
    # Whoever starts a run with Temporal's own client may be on another host.
    return (
        f"The script of {model} is a file, which the worker does not read. Start the run by "
        "`perdure run` or from Python: both take its files along."
    )


def _address(model: str) -> str:
    return model.removeprefix(PREFIX).partition(LABEL)[0]


def _said(script: Script, entry: Entry, request: ModelRequest, index: int) -> _Said:
    blocks = _blocks(entry, request, index)
    stated = entry.usage or script.defaults.usage
    usage = stated.usage() if stated else _estimated(request, blocks)
    whole = _Said(blocks=blocks, stop_reason=_stop_reason(entry, blocks), usage=usage)
    return whole if usage.output_tokens <= request.max_tokens else _cut(whole, request.max_tokens)


def _cut(said: _Said, max_tokens: int) -> _Said:
    """Cut a reply at the token limit as a provider does: the text ends early, calls are dropped."""
    calls = [block.name for block in said.blocks if isinstance(block, ToolUseBlock)]
    share = max_tokens / said.usage.output_tokens
    text = "".join(block.text for block in said.blocks if isinstance(block, TextBlock))
    kept = text[: math.floor(len(text) * share)]
    return _Said(
        blocks=(TextBlock(type="text", text=kept),) if kept else (),
        stop_reason="max_tokens",
        usage=said.usage.model_copy(update={"output_tokens": max_tokens}),
        cut_call=calls[0] if calls else "",
    )


def _blocks(entry: Entry, request: ModelRequest, index: int) -> tuple[Block, ...]:
    # Ids are made of the call's key, so that a retry gives the same ones.
    key = request.context.key
    if "json_value" in entry.model_fields_set:
        return (_json_block(entry, request, _digest(key, str(index))),)
    text = (TextBlock(type="text", text=entry.text),) if entry.text else ()
    calls = tuple(
        ToolUseBlock(
            type="tool_use",
            id=call.id or f"toolu_{_digest(key, str(index), str(number))}",
            name=call.name,
            arguments=call.arguments,
        )
        for number, call in enumerate(entry.tool_calls)
    )
    return (*text, *calls)


def _json_block(entry: Entry, request: ModelRequest, digest: str) -> Block:
    """The JSON as text, or as the arguments of a tool call if the request forces one."""
    value = entry.json_value
    forced = request.tool_choice in {tool.name for tool in request.tools}
    if forced and isinstance(value, dict):
        return ToolUseBlock(
            type="tool_use", id=f"toolu_{digest}", name=request.tool_choice, arguments=value
        )
    return TextBlock(type="text", text=json.dumps(value, ensure_ascii=False))


def _stop_reason(entry: Entry, blocks: tuple[Block, ...]) -> StopReason:
    if entry.failure and entry.failure.kind == REFUSAL:
        return REFUSAL
    if entry.stop_reason:
        return entry.stop_reason
    return "tool_use" if any(isinstance(block, ToolUseBlock) for block in blocks) else "end_turn"


def _estimated(request: ModelRequest, blocks: tuple[Block, ...]) -> Usage:
    said = Message(role="assistant", blocks=blocks)
    calls = "".join(f"{call.name} {json.dumps(call.arguments)}" for call in said.tool_uses)
    return Usage(
        input_tokens=estimate(visible_text(request)).total + _seen(request),
        output_tokens=estimate(said.text + calls).total,
    )


def _seen(request: ModelRequest) -> int:
    """The upper bound of tokens of images and PDFs; their content must be loaded, as for others."""
    shown = [one for message in request.messages for one in message.attachments]
    missing = [one for one in shown if one.ref not in request.files]
    if missing:
        raise unsent_error(f"The content of {missing[0].described} was not loaded.")
    return sum(one.tokens.media for one in shown)


async def _stream(
    blocks: tuple[Block, ...], delay_s: float, on_text: Callable[[str], None]
) -> None:
    """Pass the text on in pieces, with the delay spread over them."""
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    pieces = [
        text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)
    ]
    for piece in pieces or [""]:
        await asyncio.sleep(delay_s / max(1, len(pieces)))
        if piece:
            on_text(piece)


def _failure(error: ScriptError, used: Usage, request_id: str) -> ModelError:
    wish = "" if error.retry_after is None else str(error.retry_after)
    kind = error.kind if error.kind and error.kind != REFUSAL else None
    kind = kind or kind_of(status=error.status or 500, provider_type=error.code)
    what = f"{error.status or kind}"
    return ModelError(
        ModelFacts(
            kind=kind,
            message=error.message or f"The script answers with the error {what}.",
            status=error.status,
            provider_code=error.code,
            retry_after_s=retry_after_of({"retry-after": wish}),
            request_id=request_id,
            usage=used,
            sent=kind not in NOT_REACHED,
        )
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:20]
