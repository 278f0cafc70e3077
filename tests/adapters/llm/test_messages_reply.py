"""How streamed answers are read: blocks, usage, stop reasons."""

from typing import Any

import httpx2
import pytest

from perdure.domain.llm.transcript import TextBlock, ThinkingBlock, ToolUseBlock
from perdure.domain.llm.usage import Usage
from tests.adapters.llm.support import (
    CLAUDE,
    READ_TOOL,
    Broken,
    Provider,
    block,
    end,
    events,
    hello,
    request,
    say,
    sse,
    start,
    stream_of,
    text_block,
    tool_block,
)

PING = {"type": "ping"}


async def reply_to(*items: dict[str, Any], **changes: Any) -> Any:
    reply, _ = await say(Provider(events(*items)).client(), request(**changes))
    return reply


async def test_text_is_streamed_in_pieces_and_gathered() -> None:
    reply, pieces = await say(Provider(events(*hello())).client(), request())
    assert pieces == ["Hel", "lo"]
    assert reply.message.text == "Hello"
    assert reply.stop_reason == "end_turn"
    assert reply.model == "claude-sonnet-4-5-20250929"
    assert reply.request_id == "req_1"


async def test_all_kinds_of_usage() -> None:
    first = start(
        input_tokens=10,
        cache_creation_input_tokens=20,
        cache_read_input_tokens=30,
        cache_creation={"ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 5},
    )
    reply = await reply_to(first, PING, *text_block(0, "x"), PING, *end())
    assert reply.usage == Usage(
        input_tokens=10,
        output_tokens=7,
        cache_read_tokens=30,
        cache_write_5m_tokens=15,
        cache_write_1h_tokens=5,
    )


@pytest.mark.parametrize(
    ("first", "later", "usage"),
    [
        pytest.param(
            {"cache_creation_input_tokens": 20},
            {},
            Usage(input_tokens=10, output_tokens=7, cache_write_5m_tokens=20),
            id="writes without a split are five-minute writes",
        ),
        pytest.param(
            {},
            {"input_tokens": 44, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 9},
            Usage(input_tokens=44, output_tokens=7, cache_read_tokens=3, cache_write_5m_tokens=9),
            id="later totals replace earlier ones",
        ),
    ],
)
async def test_usage_of_start_and_end(
    first: dict[str, Any], later: dict[str, Any], usage: Usage
) -> None:
    reply = await reply_to(start(**first), *text_block(0, "x"), *end(**later))
    assert reply.usage == usage


async def test_tool_calls_get_their_names_back() -> None:
    reply = await reply_to(
        start(),
        *text_block(0, "let me look"),
        *tool_block(1, '{"pa', 'th": "a"}'),
        *tool_block(2, name="unheard__of"),
        *end("tool_use"),
        tools=(READ_TOOL,),
    )
    assert reply.stop_reason == "tool_use"
    assert reply.message.blocks == (
        TextBlock(type="text", text="let me look"),
        ToolUseBlock(type="tool_use", id="toolu_1", name="fs.read", arguments={"path": "a"}),
        ToolUseBlock(type="tool_use", id="toolu_2", name="unheard__of", arguments={}),
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        pytest.param('{"path": "a", "limit": NaN}', "NaN is a number that JSON", id="no number"),
        pytest.param('{"path": "a", "limit": 1e999}', "1e999 is a number", id="too large"),
        pytest.param('{"path": "a", "path": "b"}', "'path' is given twice", id="a name twice"),
    ],
)
async def test_arguments_that_may_not_be_taken_are_told_and_not_paid_anew(
    arguments: str, why: str
) -> None:
    reply = await reply_to(start(), *tool_block(0, arguments), *end("tool_use"), tools=(READ_TOOL,))
    (use,) = reply.message.tool_uses
    assert (use.name, use.arguments) == ("fs.read", {})
    assert why in use.unreadable


async def test_thinking_is_kept_native_under_the_model_that_was_asked() -> None:
    reply = await reply_to(
        start(),
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "h"},
            {"type": "thinking_delta", "thinking": "m"},
            {"type": "signature_delta", "signature": "sig"},
        ),
        *block(1, {"type": "redacted_thinking", "data": "xyz"}),
        *text_block(2, "so"),
        *end(),
    )
    thought, hidden, _ = reply.message.blocks
    assert thought == ThinkingBlock(
        type="thinking",
        model=CLAUDE,
        native={"type": "thinking", "thinking": "hm", "signature": "sig"},
    )
    assert hidden.native == {"type": "redacted_thinking", "data": "xyz"}


@pytest.mark.parametrize(
    ("provider", "ours"),
    [
        ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("pause_turn", "pause_turn"),
        ("refusal", "refusal"),
        ("model_context_window_exceeded", "context_end"),
    ],
)
async def test_stop_reasons(provider: str, ours: str) -> None:
    assert (await reply_to(*hello(provider))).stop_reason == ours


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        pytest.param(tool_block(1, '{"path": "a'), 1, id="half an argument"),
        pytest.param(tool_block(1), 1, id="no argument yet"),
        pytest.param(tool_block(1, '{"path": "a"}'), 2, id="just complete"),
        pytest.param(
            block(1, {"type": "thinking", "thinking": "", "signature": ""}),
            1,
            id="unsigned thought",
        ),
    ],
)
async def test_what_the_token_limit_cut_is_never_acted_on(last: Any, kept: int) -> None:
    items = [start(), *text_block(0, "I will"), *last, *end("max_tokens")]
    reply = await reply_to(*items, tools=(READ_TOOL,))
    assert reply.stop_reason == "max_tokens"
    assert len(reply.message.blocks) == kept


async def test_answer_without_content_is_an_empty_message() -> None:
    reply = await reply_to(start(), *end())
    assert reply.message.blocks == ()


async def test_goodbye_lost_after_the_stop_reason_is_no_failure() -> None:
    content = sse(start(), *text_block(0, "all"), end()[0])
    cut = Broken(content, httpx2.RemoteProtocolError("reset"))
    reply, _ = await say(Provider(stream_of(cut)).client(), request())
    assert reply.message.text == "all"


async def test_deprecated_models_do_not_warn_on_every_call() -> None:
    # warnings are errors in this suite
    assert (await reply_to(*hello(), model="claude-sonnet-4-5")).message.text == "Hello"


async def test_count_is_the_providers() -> None:
    provider = Provider(events(*hello()), count=42)
    assert await provider.client().count(request(tools=(READ_TOOL,))) == 42
    (asked,) = provider.counted
    assert asked["tools"][0]["name"] == "fs__read"
    assert "max_tokens" not in asked


@pytest.mark.parametrize(
    "changes", [pytest.param({}, id="provider fails"), pytest.param({"messages": ()}, id="refused")]
)
async def test_count_is_none_on_any_failure(changes: dict[str, Any]) -> None:
    assert await Provider(events(*hello())).client().count(request(**changes)) is None


async def test_count_without_a_key_is_none() -> None:
    assert await Provider(events(*hello()), count=3).client(api_key=None).count(request()) is None
