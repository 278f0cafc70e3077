"""The fields of both dialects' events that are read; all others are ignored."""

import json
from typing import Annotated, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, model_validator

from perdure.domain.llm.usage import Usage


class Wire(BaseModel):
    """A missing or null field has its default, since servers differ in what they send."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        fields = cast("dict[str, object]", given)
        return {name: value for name, value in fields.items() if value is not None}


def _as_json(given: object) -> object:
    """Arguments as text: some servers send them as the object itself."""
    if given is None or isinstance(given, str):
        return given
    # An empty object may stand before the pieces of the text.
    return json.dumps(given, ensure_ascii=False) if given != {} else ""


def _as_text(given: object) -> object:
    """Words as one text: some servers send them in parts, as they take them."""
    if not isinstance(given, list):
        return given
    parts = cast("list[object]", given)
    return "".join(_words(part) for part in parts)


def _words(part: object) -> str:
    if isinstance(part, str):
        return part
    said = cast("dict[str, object]", part).get("text") if isinstance(part, dict) else None
    return said if isinstance(said, str) else ""


JsonText = Annotated[str, BeforeValidator(_as_json)]
Words = Annotated[str, BeforeValidator(_as_text)]


class CacheDetails(Wire):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


def split_usage(prompt: int, output: int, cache: CacheDetails | None) -> Usage:
    """Usage as we count it: OpenAI's prompt tokens include those of the cache, ours do not."""
    read = min((cache and cache.cached_tokens) or 0, prompt)
    written = min((cache and cache.cache_write_tokens) or 0, prompt - read)
    return Usage(
        input_tokens=prompt - read - written,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_5m_tokens=written,
    )


# Chat completions


class CalledFunction(Wire):
    name: str | None = None
    arguments: JsonText | None = None


class ChatToolCall(Wire):
    index: int | None = None
    id: str | None = None
    function: CalledFunction | None = None


class ChatDelta(Wire):
    content: Words | None = None
    refusal: Words | None = None
    # The reasoning of open models: not kept and not sent back, but counted as output.
    reasoning_content: Words | None = None
    reasoning: Words | None = None
    tool_calls: list[ChatToolCall] | None = None


class ChatChoice(Wire):
    index: int = 0
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    finish_reason: str | None = None


class ChatUsage(Wire):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: CacheDetails | None = None


class ServerError(Wire):
    message: str | None = None
    type: str | None = None
    code: str | int | None = None


class ChatChunk(Wire):
    """One chunk of a stream, or a whole answer, which has messages instead of deltas."""

    id: str | None = None
    model: str | None = None
    choices: list[ChatChoice] | None = None
    usage: ChatUsage | None = None
    # Instead of an answer, with status 200: gateways repeat the status of the server behind them.
    error: ServerError | str | None = None


# Responses


class ContentPart(Wire):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class OutputItem(Wire):
    type: str
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: JsonText | None = None
    content: list[ContentPart] | None = None


class ResponsesUsage(Wire):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: CacheDetails | None = None


class IncompleteDetails(Wire):
    reason: str | None = None


class ResponseBody(Wire):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    incomplete_details: IncompleteDetails | None = None
    error: ServerError | None = None
    usage: ResponsesUsage | None = None


class WholeResponse(ResponseBody):
    """A response that came as a whole, in place of its events."""

    output: list[dict[str, JsonValue]] | None = None


class ResponsesEvent(Wire):
    type: str
    item_id: str | None = None
    output_index: int | None = None
    delta: str | None = None
    arguments: JsonText | None = None
    item: dict[str, JsonValue] | None = None
    response: ResponseBody | None = None
    error: ServerError | None = None
    code: str | int | None = None
    message: str | None = None
