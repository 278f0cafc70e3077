"""The Responses API beyond what the dialects share: thoughts, effort, and its own events."""

from typing import Any

import httpx2
import pytest

from perdure.adapters.llm.openai_dialects.structured import takes_strictly
from perdure.domain.llm.transcript import Message, TextBlock, ThinkingBlock, user_message
from perdure.domain.llm.usage import Usage
from tests.adapters.llm.dialects import (
    CREATED,
    RESPONSES,
    call_item,
    lines,
    message_item,
    reasoning_item,
    responses_client,
    responses_end,
)
from tests.adapters.llm.support import (
    READ_TOOL,
    SCORE_SCHEMA,
    Provider,
    call_message,
    fails,
    request,
    result_message,
    say,
    stream_of,
)

MODEL = RESPONSES.model
HELLO = RESPONSES.body("Hello")


def asked(**changes: Any) -> Any:
    return request(MODEL, **changes)


BARE = {"type": "reasoning", "id": "rs_1", "summary": []}
WHOLE = BARE | {"encrypted_content": "gAAAA"}


async def body_of(**changes: Any) -> dict[str, Any]:
    facts = {name: changes.pop(name) for name in ("effort_known",) if name in changes}
    provider = Provider(stream_of(HELLO))
    client = responses_client(provider, effort=("low", "high") if facts else None)
    await say(client, asked(**changes))
    return provider.bodies[0]


async def test_thoughts_travel_with_the_tool_round_that_they_led_to() -> None:
    events = [CREATED, *reasoning_item(), *call_item('{"path": "a"}'), responses_end()]
    provider = Provider(stream_of(lines(events, named=True)), stream_of(HELLO))
    client = responses_client(provider)
    reply, _ = await say(client, asked(tools=(READ_TOOL,)))
    thought, call = reply.message.blocks
    assert isinstance(thought, ThinkingBlock)
    assert thought.model == MODEL
    messages = (user_message("Read."), reply.message, result_message("call_1"))
    await say(client, asked(messages=messages, tools=(READ_TOOL,)))
    sent = provider.bodies[1]["input"]
    assert [item.get("type", "message") for item in sent] == [
        "message", "reasoning", "function_call", "function_call_output",
    ]  # fmt: skip
    assert sent[1] == {
        "id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA",
    }  # fmt: skip
    assert (sent[2]["call_id"], sent[2]["arguments"]) == ("call_1", '{"path": "a"}')
    assert call.type == "tool_use"


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param([{"model": "claude-opus-5", "native": WHOLE}, "Well."], id="another model's"),
        pytest.param([{"model": MODEL, "native": WHOLE}], id="one that nothing came of"),
        pytest.param([{"model": MODEL, "native": BARE}, "Well."], id="one without its content"),
    ],
)
async def test_thoughts_that_would_be_refused_stay_here(blocks: list[Any]) -> None:
    made = tuple(
        TextBlock(type="text", text=one)
        if isinstance(one, str)
        else ThinkingBlock(type="thinking", **one)
        for one in blocks
    )
    messages = (user_message("Hi."), Message(role="assistant", blocks=made), user_message("Go on."))
    body = await body_of(messages=messages)
    assert all(item.get("type") != "reasoning" for item in body["input"])


@pytest.mark.parametrize(
    ("changes", "reasoning"),
    [
        ({}, None),
        ({"effort": "high"}, {"effort": "high"}),
        ({"thinking": "adaptive", "effort": "low"}, {"effort": "low"}),
        ({"thinking": "off", "effort": "high"}, {"effort": "none"}),
    ],
)
async def test_effort_and_thinking_are_one_scale(
    changes: dict[str, Any], reasoning: dict[str, str] | None
) -> None:
    assert (await body_of(**changes)).get("reasoning") == reasoning


async def test_a_number_of_thinking_tokens_is_refused_in_words() -> None:
    client = responses_client(Provider(stream_of(HELLO)))
    facts = await fails(client, asked(thinking=2000))
    assert not facts.sent
    assert "Set `effort` instead" in facts.message


async def test_nothing_is_kept_at_the_provider() -> None:
    body = await body_of(effort_known=True)
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    # One of which nobody here knows whether it reasons would refuse to be asked for it.
    assert "include" not in await body_of()
    assert "include" not in await body_of(thinking="off")
    assert (await body_of(effort="high"))["include"] == ["reasoning.encrypted_content"]


async def test_schemas_are_strict_where_they_may_be() -> None:
    loose = {"type": "object", "properties": {"a": {"type": "string"}}}
    for schema, strict in ((SCORE_SCHEMA, True), (loose, False)):
        body = await body_of(json_schema=schema)
        assert body["text"]["format"]["strict"] is strict
        assert body["text"]["format"]["schema"] == schema


def _with(field: dict[str, Any]) -> dict[str, Any]:
    """A closed object that has this field."""
    closed = {"type": "object", "additionalProperties": False, "required": ["a"]}
    return {**closed, "properties": {"a": field}}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        pytest.param({"type": "string"}, False, id="no object"),
        pytest.param({"type": "object", "additionalProperties": False}, True, id="empty"),
        pytest.param(
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["a"],
                "properties": {"a": {"type": "array", "items": {"type": "object"}}},
            },
            False,
            id="an open object inside",
        ),
        pytest.param(
            {
                "type": "object",
                "additionalProperties": False,
                "required": [],
                "properties": {"a": {"type": "string"}},
            },
            False,
            id="an optional field",
        ),
        pytest.param(_with({"type": ["string", "null"]}), True, id="a text or null"),
        pytest.param(_with({"type": ["object", "null"]}), False, id="an open object or null"),
        pytest.param(_with({"type": "string", "oneOf": [{"const": "b"}]}), False, id="oneOf"),
        pytest.param(_with({"type": "string", "not": {"const": "b"}}), False, id="not"),
        pytest.param({**_with({"type": "string"}), "anyOf": [{}]}, False, id="anyOf at the top"),
        pytest.param(_with({"anyOf": [{"type": "string"}]}), True, id="anyOf inside"),
    ],
)
def test_what_may_be_strict(schema: dict[str, Any], strict: bool) -> None:
    assert takes_strictly(schema) is strict


async def test_little_room_is_rounded_up_to_what_the_api_takes() -> None:
    assert (await body_of(max_tokens=3))["max_output_tokens"] == 16


async def test_refusals_in_words_of_their_own() -> None:
    events = [CREATED, *message_item("I will not.", kind="refusal"), responses_end()]
    client = responses_client(Provider(stream_of(lines(events, named=True))))
    reply, _ = await say(client, asked())
    assert (reply.stop_reason, reply.message.text) == ("refusal", "I will not.")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("server_error", "server"),
        ("rate_limit_exceeded", "rate_limited"),
        ("invalid_prompt", "bad_request"),
        ("never_heard_of", "server"),
    ],
)
async def test_an_answer_that_failed(code: str, kind: str) -> None:
    end = responses_end("failed", error={"code": code, "message": "no luck"})
    events = [CREATED, *message_item("so far"), end]
    facts = await fails(responses_client(Provider(stream_of(lines(events, named=True)))), asked())
    assert facts.kind == kind
    assert facts.usage == Usage(input_tokens=7, output_tokens=7, cache_read_tokens=5)
    assert facts.confirmed


async def test_an_answer_that_a_policy_ended_is_a_refusal() -> None:
    end = responses_end("failed", error={"code": "bio_policy", "message": "no"})
    reply, _ = await say(
        responses_client(Provider(stream_of(lines([CREATED, end], named=True)))), asked()
    )
    assert reply.stop_reason == "refusal"
    assert reply.usage.output_tokens == 7


async def test_text_that_only_came_at_the_end_of_its_item() -> None:
    events = [CREATED, message_item()[0], message_item("Hello")[-1], responses_end()]
    client = responses_client(Provider(stream_of(lines(events, named=True))))
    reply, pieces = await say(client, asked())
    assert reply.message.text == "Hello"
    assert pieces == ["Hello"]


def without_ids(events: list[dict[str, Any]], at: int) -> list[dict[str, Any]]:
    """The events of one item as servers write them that know items by their place alone."""
    bare = [{name: value for name, value in one.items() if name != "item_id"} for one in events]
    for event in bare:
        event["output_index"] = at
        if "item" in event:
            event["item"] = {name: v for name, v in event["item"].items() if name != "id"}
    return bare


async def test_items_without_an_id_are_told_apart_by_their_place() -> None:
    items = [message_item("A ", "bottle."), call_item('{"path": ', '"a"}'), reasoning_item()]
    events = [one for at, item in enumerate(items) for one in without_ids(item, at)]
    provider = Provider(stream_of(lines([CREATED, *events, responses_end()], named=True)))
    reply, pieces = await say(responses_client(provider), asked(tools=(READ_TOOL,)))
    assert [block.type for block in reply.message.blocks] == ["text", "tool_use", "thinking"]
    assert (reply.message.text, pieces) == ("A bottle.", ["A ", "bottle."])
    assert [call.arguments for call in reply.message.tool_uses] == [{"path": "a"}]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([CREATED, *message_item("a")[1:2], responses_end()], id="text of no item"),
        pytest.param([CREATED, responses_end(), *message_item("a")], id="after the end"),
        pytest.param([CREATED, *call_item(whole=False), responses_end()], id="no arguments"),
        pytest.param([CREATED, {"type": "response.completed"}], id="an end without its response"),
    ],
)
async def test_contradictions_are_no_answer(events: list[dict[str, Any]]) -> None:
    client = responses_client(Provider(stream_of(lines(events, named=True))))
    assert (await fails(client, asked(tools=(READ_TOOL,)))).kind == "bad_reply"


def whole(status: str | None = "completed", **more: Any) -> httpx2.Response:
    """A server that does not know `stream`."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "A bottle."}],
    }
    call = {
        "id": "fc_1",
        "type": "function_call",
        "call_id": "call_1",
        "name": "fs__read",
        "arguments": '{"path": "a"}',
    }
    ended = responses_end()["response"]
    body = {**ended, "object": "response", "status": status, "output": [message, call], **more}
    return httpx2.Response(200, json=body, headers={"x-request-id": "req_1"})


async def test_a_whole_answer_in_place_of_a_stream_is_read_all_the_same() -> None:
    provider = Provider(whole())
    reply, pieces = await say(responses_client(provider), asked(tools=(READ_TOOL,)))
    assert provider.bodies[0]["stream"]
    assert pieces == ["A bottle."]
    assert (reply.message.text, reply.stop_reason) == ("A bottle.", "tool_use")
    assert [call.arguments for call in reply.message.tool_uses] == [{"path": "a"}]
    assert (reply.usage.output_tokens, reply.confirmed, reply.request_id) == (7, True, "req_1")


async def test_a_whole_answer_that_was_cut() -> None:
    answer = whole("incomplete", incomplete_details={"reason": "max_output_tokens"})
    reply, _ = await say(responses_client(Provider(answer)), asked(tools=(READ_TOOL,)))
    assert reply.stop_reason == "max_tokens"


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (whole(None), "bad_reply", "does not say why it ended"),
        (whole("in_progress"), "bad_reply", "does not say why it ended"),
        (
            whole("failed", error={"code": "rate_limit_exceeded", "message": "later"}),
            "rate_limited", "later",
        ),
        (
            httpx2.Response(200, json={"error": {"code": "server_error", "message": "busy"}}),
            "server", "busy",
        ),
    ],
    ids=["no status", "not done", "failed", "an error instead"],
)  # fmt: skip
async def test_a_whole_answer_that_is_none(answer: httpx2.Response, kind: str, words: str) -> None:
    facts = await fails(responses_client(Provider(answer)), asked())
    assert facts.kind == kind
    assert words in facts.message


async def test_tokens_are_counted_by_the_provider() -> None:
    def answer(sent: httpx2.Request) -> httpx2.Response:
        assert sent.url.path == "/v1/responses/input_tokens"
        return httpx2.Response(200, json={"object": "response.input_tokens", "input_tokens": 42})

    provider = Provider(answer)
    assert await responses_client(provider).count(asked(tools=(READ_TOOL,))) == 42
    assert "max_output_tokens" not in provider.bodies[0]


@pytest.mark.parametrize("answer", [httpx2.Response(404), httpx2.Response(200, json={"x": 1})])
async def test_without_a_count_our_own_is_used(answer: httpx2.Response) -> None:
    assert await responses_client(Provider(answer)).count(asked()) is None


async def test_a_call_without_a_result_is_not_sent() -> None:
    facts = await fails(
        responses_client(Provider(stream_of(HELLO))), asked(messages=(call_message("a"),))
    )
    assert not facts.sent
