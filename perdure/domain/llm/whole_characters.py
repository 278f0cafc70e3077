"""Replies without halves of characters, which UTF-8 cannot encode and no store could keep.

A gateway may split a pair of surrogates over two pieces of a stream, and a model may write one half
as an escape in the arguments of a call.
"""

import json
import re

from pydantic import JsonValue

from perdure.domain.llm.requests import ModelReply
from perdure.domain.llm.transcript import Block, TextBlock, ThinkingBlock, ToolUseBlock

HALF_CHARACTER = "they hold half of a character (a lone surrogate)"
_HALF = re.compile(r"[\ud800-\udfff]")
_PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")


def whole_text(text: str) -> str:
    """The text with both halves of a character joined, and a mark in place of a lone one."""
    return _HALF.sub("\N{REPLACEMENT CHARACTER}", _joined(text))


def whole_reply(reply: ModelReply) -> ModelReply:
    """The reply as it can be stored; a call with a lone half in its arguments is told so."""
    blocks = tuple(_whole(block) for block in reply.message.blocks)
    return reply.model_copy(
        update={
            "message": reply.message.model_copy(update={"blocks": blocks}),
            "model": whole_text(reply.model),
            "cut_call": whole_text(reply.cut_call),
            "notes": tuple(map(whole_text, reply.notes)),
        }
    )


def _whole(block: Block) -> Block:
    match block:
        case TextBlock():
            return block.model_copy(update={"text": whole_text(block.text)})
        case ThinkingBlock():
            written = _with_halves(block.native)
            native = block.native if written is None else json.loads(whole_text(written))
            return block.model_copy(update={"native": native})
        case ToolUseBlock():
            return _whole_call(block)
        case _:
            return block


def _whole_call(call: ToolUseBlock) -> ToolUseBlock:
    named = {"id": whole_text(call.id), "name": whole_text(call.name)}
    written = _with_halves(call.arguments)
    if written is None:
        return call.model_copy(update=named)
    joined = _joined(written)
    # Another character in its place would be another path or pattern than the model meant.
    lone = _HALF.search(joined) is not None
    arguments: dict[str, JsonValue] = {} if lone else json.loads(joined)
    wrong = HALF_CHARACTER if lone else call.unreadable
    return call.model_copy(update={**named, "arguments": arguments, "unreadable": wrong})


def _with_halves(data: dict[str, JsonValue]) -> str | None:
    """The data as JSON if it has halves of characters; None for all others."""
    try:
        # Not as ASCII: halves would become escapes, which the search below does not see.
        written = json.dumps(data, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return None  # a plugin's own objects are told where they would be stored
    return written if _HALF.search(written) else None


def _joined(text: str) -> str:
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
