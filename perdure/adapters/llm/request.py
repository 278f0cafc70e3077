"""Builds the arguments of one call of the Messages API."""

from collections.abc import Mapping
from dataclasses import dataclass

import anthropic
from anthropic import Omit, omit
from anthropic.types import (
    CacheControlEphemeralParam,
    MessageParam,
    OutputConfigParam,
    TextBlockParam,
    ThinkingConfigParam,
    ToolChoiceParam,
    ToolParam,
)
from pydantic import JsonValue

from perdure.adapters.llm.conversation import check_request, names_back, wire_name
from perdure.adapters.llm.error_kinds import unsent_error
from perdure.adapters.llm.message_format import MARKS, wire_messages
from perdure.adapters.llm.wire_files import refuse_files
from perdure.domain.llm.call_settings import LEAST_THINKING_TOKENS
from perdure.domain.llm.requests import CacheUse, ModelRequest, ToolOffer
from perdure.domain.llm.transcript import ThinkingBlock


@dataclass(frozen=True, slots=True)
class Dialect:
    """How requests differ between Claude and the embedded model.

    Attributes:
        cache: send cache breakpoints if a request has some.
        strict_schema: rewrite schemas to the subset that the API accepts; otherwise send them as
            they are, for a grammar that also enforces lengths.
        sampling: send a seed too; a temperature is sent whenever a request has one.
        chooses_tools: the model can decide by itself whether to call a tool.
        sees: images and PDFs can be sent.
    """

    cache: bool
    strict_schema: bool
    sampling: bool
    chooses_tools: bool
    sees: bool = True


CLAUDE = Dialect(cache=True, strict_schema=True, sampling=False, chooses_tools=True)
EMBEDDED = Dialect(cache=False, strict_schema=False, sampling=True, chooses_tools=False, sees=False)
# Thinking must leave this much of `max_tokens` for the answer.
LEAST_ANSWER_TOKENS = 256


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One call, ready for the SDK; `names` maps wire names of tools to our names."""

    model: str
    max_tokens: int
    messages: list[MessageParam]
    system: list[TextBlockParam] | Omit
    tools: list[ToolParam] | Omit
    tool_choice: ToolChoiceParam | Omit
    output_config: OutputConfigParam | Omit
    thinking: ThinkingConfigParam | Omit
    extra_body: dict[str, object] | None
    names: Mapping[str, str]


def wire_request(request: ModelRequest, dialect: Dialect) -> WireRequest:
    """Translate and validate; at most four cache breakpoints are set.

    Raises:
        ModelError: kind `bad_request`, nothing sent.
    """
    check_request(request)
    if not dialect.sees:
        refuse_files(request.messages, model=request.model)
    if request.tools and request.tool_choice == "auto" and not dialect.chooses_tools:
        raise unsent_error(
            "The embedded model cannot choose tools by itself. "
            "Use a Claude model for this run, or take its tools away."
        )
    # Unused tools stay for Claude, since they are part of the cached prompt. The embedded model
    # would call them all the same.
    drops_tools = request.tool_choice == "none" and not dialect.chooses_tools
    offered = () if drops_tools else request.tools
    cache: CacheUse = request.cache if dialect.cache else "none"
    life = request.cache_life
    mark = None if cache == "none" else MARKS[life]
    return WireRequest(
        model=request.model,
        max_tokens=request.max_tokens,
        messages=wire_messages(
            request.messages, model=request.model, cache=cache, life=life, files=request.files
        ),
        system=_system(request.system, mark),
        tools=_tools(offered, mark) if offered else omit,
        tool_choice=_tool_choice(request.tool_choice) if offered else omit,
        output_config=_output_config(request, dialect),
        thinking=_thinking(request),
        extra_body=_extra_body(request, dialect),
        names=names_back(tool.name for tool in offered),
    )


def _system(text: str, mark: CacheControlEphemeralParam | None) -> list[TextBlockParam] | Omit:
    if not text.strip():
        return omit
    block = TextBlockParam(type="text", text=text)
    if mark is not None:
        block["cache_control"] = mark
    return [block]


def _tools(
    offered: tuple[ToolOffer, ...], mark: CacheControlEphemeralParam | None
) -> list[ToolParam]:
    tools = [
        ToolParam(
            name=wire_name(tool.name),
            description=tool.description,
            input_schema=dict[str, object](tool.parameters),
        )
        for tool in offered
    ]
    if mark is not None:
        # A mark covers everything before it, so that of the last tool covers all of them.
        tools[-1]["cache_control"] = mark
    return tools


def _tool_choice(choice: str) -> ToolChoiceParam:
    match choice:
        case "auto":
            return {"type": "auto"}
        case "none":
            return {"type": "none"}
        case "any":
            return {"type": "any"}
        case name:
            return {"type": "tool", "name": wire_name(name), "disable_parallel_tool_use": True}


def _thinking(request: ModelRequest) -> ThinkingConfigParam | Omit:
    match request.thinking:
        case None:
            return omit
        case "off":
            return {"type": "disabled"}
        case "adaptive":
            return {"type": "adaptive"}
        case tokens:
            room = min(tokens, request.max_tokens - LEAST_ANSWER_TOKENS)
            if room < LEAST_THINKING_TOKENS or _thoughtless(request):
                return omit
            return {"type": "enabled", "budget_tokens": room}


def _thoughtless(request: ModelRequest) -> bool:
    """Whether the current turn began without this model's thinking, for example by another model.

    With a thinking budget the API refuses to continue such a turn.
    """
    for message in reversed(request.messages):
        if message.role == "assistant":
            first = message.blocks[0] if message.blocks else None
            thought = isinstance(first, ThinkingBlock) and first.model == request.model
            return bool(message.tool_uses) and not thought
    return False


def _output_config(request: ModelRequest, dialect: Dialect) -> OutputConfigParam | Omit:
    config = OutputConfigParam()
    if request.json_schema is not None:
        schema = _sent_schema(request.json_schema, dialect)
        config["format"] = {"type": "json_schema", "schema": schema}
    if request.effort is not None:
        config["effort"] = request.effort
    return config or omit


def _sent_schema(schema: dict[str, JsonValue], dialect: Dialect) -> dict[str, object]:
    sent = dict[str, object](schema)
    if dialect.strict_schema:
        try:
            sent = anthropic.transform_schema(sent)
        except (ValueError, AssertionError) as error:
            raise unsent_error(f"The schema of the answer cannot be sent: {error}") from error
    return sent


def _extra_body(request: ModelRequest, dialect: Dialect) -> dict[str, object] | None:
    """Temperature and seed, for which the SDK has no parameters; none while the model thinks."""
    if request.thinking not in (None, "off"):
        return None
    if not dialect.sampling:
        return None if request.temperature is None else {"temperature": request.temperature}
    wishes = {"temperature": request.temperature, "seed": request.seed}
    return {name: value for name, value in wishes.items() if value is not None} or None
