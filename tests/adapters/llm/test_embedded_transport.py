"""The translation between Claude's Messages API and the embedded engine's, without the engine."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2
import pytest
from inline_snapshot import snapshot

from perdure.adapters.llm.embedded_client import PREFILL, EmbeddedModel, call_as_text
from perdure.domain.llm.requests import ToolOffer
from perdure.domain.llm.transcript import TextBlock, ToolUseBlock
from tests.adapters.llm.support import (
    READ_TOOL,
    SCORE_SCHEMA,
    Provider,
    end,
    events,
    fails,
    hello,
    request,
    say,
    sse,
    start,
    stream_of,
    text_block,
    tool_block,
)

LIST_TOOL = ToolOffer(name="fs.list", description="List.", parameters={"type": "object"})


def served(provider: Provider) -> EmbeddedModel:
    return EmbeddedModel(url="http://127.0.0.1:9", inner=provider.transport)


async def sent(**changes: Any) -> dict[str, Any]:
    provider = Provider(events(*hello()))
    await say(served(provider), request("local", **changes))
    (body,) = provider.bodies
    return body


async def test_plain_text_call() -> None:
    assert await sent(temperature=0.7, seed=3) == snapshot(
        {
            "max_tokens": 100,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}],
            "model": "smollm2-135m-instruct",
            "stream": True,
            "system": [{"type": "text", "text": "Be brief."}],
            "temperature": 0.7,
            "seed": 3,
        }
    )


async def test_max_tokens_is_capped() -> None:
    assert (await sent(max_tokens=50_000))["max_tokens"] == 1024


async def test_structured_output_becomes_a_forced_tool_with_its_raw_schema() -> None:
    body = await sent(json_schema=SCORE_SCHEMA)
    assert "output_config" not in body
    (tool,) = body["tools"]
    assert tool["input_schema"] == SCORE_SCHEMA
    assert body["tool_choice"] == {"type": "any"}
    assert body["messages"][-1] == {"role": "assistant", "content": PREFILL}


async def test_a_named_tool_goes_alone_and_prefilled() -> None:
    body = await sent(tools=(READ_TOOL, LIST_TOOL), tool_choice="fs.list")
    assert [tool["name"] for tool in body["tools"]] == ["fs__list"]
    assert body["messages"][-1] == {"role": "assistant", "content": PREFILL}


async def test_any_tool_keeps_all_tools() -> None:
    body = await sent(tools=(READ_TOOL, LIST_TOOL), tool_choice="any")
    assert len(body["tools"]) == 2
    assert body["messages"][-1]["content"] == PREFILL


async def test_tools_switched_off_are_not_shown() -> None:
    body = await sent(tools=(READ_TOOL,), tool_choice="none")
    assert "tools" not in body
    assert "tool_choice" not in body


async def test_free_choice_of_tools_is_refused_with_the_reason() -> None:
    provider = Provider(events(*hello()))
    facts = await fails(served(provider), request("local", tools=(READ_TOOL,)))
    assert facts.kind == "bad_request"
    assert "cannot choose tools" in facts.message
    assert provider.bodies == []


async def test_structured_output_comes_back_as_text() -> None:
    call = tool_block(0, '{"score"', ": 2}", name="json_output")
    provider = Provider(events(start(), *call, *end("tool_use")))
    reply, pieces = await say(served(provider), request("local", json_schema=SCORE_SCHEMA))
    assert reply.message.blocks == (TextBlock(type="text", text='{"score": 2}'),)
    assert reply.stop_reason == "end_turn"
    assert pieces == ['{"score"', ": 2}"]


async def test_lines_split_over_chunks_are_put_together() -> None:
    content = sse(start(), *tool_block(0, '{"score": 2}', name="json_output"), *end("tool_use"))

    class Drops(httpx2.AsyncByteStream):
        async def __aiter__(self):  # type: ignore[no-untyped-def]
            for place in range(0, len(content), 7):
                yield content[place : place + 7]

    reply, _ = await say(
        served(Provider(stream_of(Drops()))), request("local", json_schema=SCORE_SCHEMA)
    )
    assert reply.message.text == '{"score": 2}'


async def test_forced_tool_calls_stay_tool_calls() -> None:
    provider = Provider(events(start(), *tool_block(0, '{"path": "a"}'), *end("tool_use")))
    wanted = request("local", tools=(READ_TOOL,), tool_choice="any")
    reply, _ = await say(served(provider), wanted)
    (block,) = reply.message.blocks
    assert isinstance(block, ToolUseBlock)
    assert block.name == "fs.read"


async def test_every_answer_gets_a_request_id() -> None:
    reply, _ = await say(served(Provider(events(*hello()))), request("local"))
    assert reply.request_id is not None
    assert reply.request_id.startswith("req_local_")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"code": 400, "message": "m", "type": "exceed_context_size_error"}},
         "context_overflow"),
        (400, {"error": {"code": 400, "message": "m", "type": "invalid_request_error"}},
         "bad_request"),
        (503, {"error": {"code": 503, "message": "m", "type": "unavailable_error"}}, "server"),
        (500, "not an object", "server"),
    ],
    ids=["overflow", "invalid", "loading", "text"],
)  # fmt: skip
async def test_engine_errors_become_facts(status: int, body: Any, kind: str) -> None:
    answer = httpx2.Response(status, content=json.dumps(body))
    facts = await fails(served(Provider(answer)), request("local"))
    assert facts.kind == kind
    assert facts.status == status
    assert facts.request_id.startswith("req_local_")


async def test_count_includes_the_framing_of_a_forced_call() -> None:
    provider = Provider(events(*hello()), count=77)
    assert await served(provider).count(request("local", json_schema=SCORE_SCHEMA)) == 77
    assert provider.counted[0]["messages"][-1]["content"] == PREFILL


async def test_without_a_server_it_says_how_to_start_one() -> None:
    client = EmbeddedModel(url=None)
    facts = await fails(client, request("local"))
    assert facts.kind == "unavailable"
    assert not facts.sent
    assert "perdure up" in facts.message
    assert await client.count(request("local")) is None


async def test_card_is_explicit() -> None:
    card = await EmbeddedModel(url=None).card("local")
    assert card.price is not None
    assert (card.price.input_per_million, card.price.output_per_million) == (0, 0)
    assert (card.tools, card.judges, card.small) == (False, False, True)
    assert card.name == "smollm2-135m-instruct"
    assert 2048 <= card.window <= 4096


@pytest.mark.parametrize(
    "line",
    [b"", b"event: ping", b": comment", b"data: [DONE]"],
    ids=["blank", "event", "comment", "done"],
)
def test_other_lines_pass_unchanged(line: bytes) -> None:
    assert call_as_text(line) == line


async def test_first_text_of_a_plain_call_passes() -> None:
    reply, _ = await say(
        served(Provider(events(start(), *text_block(0, "a"), *end()))), request("local")
    )
    assert reply.message.text == "a"


HEADLESS = hello()[1:]


@pytest.mark.parametrize("cut", [1, 7, 10_000], ids=["bytes", "lines", "whole"])
async def test_an_answer_without_its_first_event_gets_one(cut: int) -> None:
    content = sse(*HEADLESS)
    pieces = [content[at : at + cut] for at in range(0, len(content), cut)]
    provider = Provider(stream_of(_Pieces(pieces)), count=31)
    reply, told = await say(served(provider), request("local"))
    assert (reply.message.text, "".join(told)) == ("Hello", "Hello")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (31, 7)
    assert provider.counted == provider.bodies, "what was asked is what is counted"


async def test_so_does_a_forced_call() -> None:
    answer = [*tool_block(0, '{"score": 1}'), *end("tool_use")]
    provider = Provider(events(*answer), count=31)
    reply, _ = await say(served(provider), request("local", json_schema=SCORE_SCHEMA))
    assert reply.message.text == '{"score": 1}'


async def test_a_whole_answer_is_not_counted() -> None:
    provider = Provider(events(*hello()), count=31)
    await say(served(provider), request("local"))
    assert provider.counted == []


async def test_one_that_cannot_be_counted_is_no_answer() -> None:
    error = await fails(served(Provider(events(*HEADLESS))), request("local"))
    assert "came before the message began" in str(error)


class _Pieces(httpx2.AsyncByteStream):
    """A stream in pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
