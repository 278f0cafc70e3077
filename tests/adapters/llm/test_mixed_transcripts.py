"""A conversation of several providers, sent on to each of them: nothing is lost or invented.

Calls keep their results under one id that the provider takes, words keep their order, and thoughts
go to the model that had them alone.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.adapters.llm.message_format import wire_messages
from perdure.adapters.llm.openai_dialects.chat import chat_body
from perdure.adapters.llm.openai_dialects.responses import responses_body
from perdure.domain.llm.transcript import (
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from tests.adapters.llm.dialects import card
from tests.adapters.llm.support import request

MODELS = ("claude-opus-5", "openai:gpt-5", "compat:box/qwen")
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
IDS = st.one_of(
    st.sampled_from(["toolu_01", "call_0", "functions.fs.read:0", "a/b", "a_b", "ü", "x" * 90]),
    st.text(min_size=1, max_size=12),
)
WORDS = st.sampled_from(["", "  ", "steel", "Ünd 42", "{}"])


@dataclass(frozen=True, slots=True)
class Sent:
    """What arrives at a provider: words and calls in their order, and results by the call's id."""

    words: list[str]
    calls: list[tuple[str, str]]
    results: list[tuple[str, str]]
    thoughts: list[Any]


def thought(model: str) -> ThinkingBlock:
    return ThinkingBlock(type="thinking", model=model, native={"type": "reasoning", "by": model})


@st.composite
def transcripts(draw: st.DrawFn) -> tuple[Message, ...]:
    """Turns of several models, each with calls that are answered in the message behind it."""
    messages = [Message(role="user", blocks=(TextBlock(type="text", text="Begin."),))]
    ids = iter(draw(st.lists(IDS, max_size=8, unique=True)))
    for _ in range(draw(st.integers(0, 4))):
        blocks: list[Block] = []
        if draw(st.booleans()):
            blocks.append(thought(draw(st.sampled_from(MODELS))))
        blocks.append(TextBlock(type="text", text=draw(WORDS)))
        results: list[Block] = []
        for _ in range(draw(st.integers(0, 2))):
            if (id := next(ids, None)) is None:
                break
            blocks.append(
                ToolUseBlock(type="tool_use", id=id, name="fs.read", arguments={"path": id})
            )
            results.append(
                ToolResultBlock(
                    type="tool_result", call_id=id, name="fs.read", outcome="ok", text=f"of {id}"
                )
            )
        results.append(TextBlock(type="text", text=draw(WORDS)))
        messages.append(Message(role="assistant", blocks=tuple(blocks)))
        messages.append(Message(role="user", blocks=tuple(results)))
    return tuple(messages)


def by_messages(messages: tuple[Message, ...], model: str) -> Sent:
    sent = Sent([], [], [], [])
    wired: Any = wire_messages(messages, model=model, cache="none")
    for message in wired:
        for block in message["content"]:
            match block:
                case {"type": "text"}:
                    sent.words.append(block["text"])
                case {"type": "tool_use"}:
                    sent.calls.append((block["id"], json.dumps(block["input"])))
                case {"type": "tool_result"}:
                    sent.results.append((block["tool_use_id"], str(block["content"])))
                case _:
                    sent.thoughts.append(block)
    return sent


def by_responses(messages: tuple[Message, ...], model: str) -> Sent:
    sent = Sent([], [], [], [])
    asked = request(model, messages=messages)
    for item in responses_body(asked, model="x", card=card(model))["input"]:  # type: ignore[union-attr]
        match item:
            case {"role": _, "content": text}:
                sent.words.append(str(text))
            case {"type": "function_call", "call_id": id, "arguments": arguments}:
                sent.calls.append((str(id), str(arguments)))
            case {"type": "function_call_output", "call_id": id, "output": text}:
                sent.results.append((str(id), str(text)))
            case _:
                sent.thoughts.append(item)
    return sent


def by_chat(messages: tuple[Message, ...], model: str) -> Sent:
    sent = Sent([], [], [], [])
    body: Any = chat_body(request(model, messages=messages), model="x")
    for item in body["messages"][1:]:
        if item["role"] == "tool":
            sent.results.append((item["tool_call_id"], item["content"]))
            continue
        if item["content"]:
            sent.words.extend(item["content"].split("\n\n"))
        for call in item.get("tool_calls", ()):
            sent.calls.append((call["id"], call["function"]["arguments"]))
    return sent


@pytest.mark.parametrize(
    ("sends", "model"),
    [(by_messages, MODELS[0]), (by_responses, MODELS[1]), (by_chat, MODELS[2])],
    ids=["messages", "responses", "chat"],
)
@settings(max_examples=40)
@given(messages=transcripts())
def test_a_conversation_goes_on_with_another_provider(
    sends: Any, model: str, messages: tuple[Message, ...]
) -> None:
    sent: Sent = sends(messages, model)
    blocks = [block for message in messages for block in message.blocks]
    said = [block.text for block in blocks if isinstance(block, TextBlock) and block.text.strip()]
    assert sent.words == said
    calls = [block for block in blocks if isinstance(block, ToolUseBlock)]
    assert [json.loads(arguments) for _, arguments in sent.calls] == [c.arguments for c in calls]
    ids = [id for id, _ in sent.calls]
    assert all(ID.fullmatch(id) for id in ids)
    assert len({*ids}) == len(ids), "no two calls become one"
    assert sent.results == [(id, f"of {call.id}") for id, call in zip(ids, calls, strict=True)]
    own = [b.native for b in blocks if isinstance(b, ThinkingBlock) and b.model == model]
    assert all(dict(one) in own for one in sent.thoughts)
    if sends is by_messages:
        assert len(sent.thoughts) == len(own)
