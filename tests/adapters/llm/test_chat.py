"""Chat completions of compatible servers: their habits, and what they lack."""

from typing import Any

import httpx2
import openai
import pytest
from structlog.testing import capture_logs

from perdure.adapters.llm.openai_dialects.server import SDK, Feature
from perdure.adapters.llm.stream_answer import call_error
from perdure.domain.llm.requests import ToolOffer
from perdure.domain.llm.transcript import Message, TextBlock, user_message
from perdure.domain.llm.usage import Usage
from tests.adapters.llm.dialects import (
    CHAT,
    JSON,
    RECORDED,
    chat_call,
    chat_client,
    chat_usage,
    chunk,
    lines,
)
from tests.adapters.llm.support import (
    READ_TOOL,
    SCORE_SCHEMA,
    Broken,
    Provider,
    call_message,
    fails,
    request,
    result_message,
    say,
    stream_of,
)

MODEL = CHAT.model
ANSWER = CHAT.body('{"score": 1, "gap": ""}')


def asked(**changes: Any) -> Any:
    return request(MODEL, **changes)


def not_taken(status: int = 400) -> httpx2.Response:
    return httpx2.Response(status, json={"error": {"message": "not supported", "code": status}})


def whole(text: str = '{"score": 1, "gap": ""}', **message: Any) -> httpx2.Response:
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": text, **message}}
    body = {**chat_usage(), "choices": [choice]}
    return httpx2.Response(200, json=body, headers={**JSON, "x-request-id": "req_1"})


def picky(*refused: str, status: int = 400) -> Provider:
    """A server that refuses bodies with one of these fields."""

    def answer(sent: httpx2.Request) -> httpx2.Response:
        if any(f'"{name}"' in sent.content.decode() for name in refused):
            return not_taken(status)
        return stream_of(ANSWER) if b'"stream"' in sent.content else whole()

    return Provider(answer)


@pytest.mark.parametrize(
    ("calls", "ids"),
    [
        pytest.param(
            [*chat_call('{"path": "a"}'), *chat_call('{"path": "b"}', index=1, id="call_2")],
            ["call_1", "call_2"],
            id="as documented",
        ),
        pytest.param(
            [*chat_call('{"path": "a"}')[:1], *chat_call(index=0, id="call_2")],
            ["call_1", "call_2"],
            id="one index for all",
        ),
    ],
)
async def test_parallel_calls(calls: list[dict[str, Any]], ids: list[str]) -> None:
    events = [*calls, chunk({}, "tool_calls"), chat_usage()]
    client = chat_client(Provider(stream_of(lines(events, done=True))))
    reply, _ = await say(client, asked(tools=(READ_TOOL,)))
    assert [call.id for call in reply.message.tool_uses] == ids


@pytest.mark.parametrize("id", ["", "call_1"], ids=["no id", "an id of an earlier call"])
async def test_ids_are_made_where_a_server_gives_none_of_its_own(id: str) -> None:
    events = [*chat_call('{"path": "a"}', id=id), chunk({}, "stop"), chat_usage()]
    messages = (user_message("Read."), call_message("call_1"), result_message("call_1"))
    wanted = asked(tools=(READ_TOOL,), messages=messages)
    found: list[str] = []
    for _ in range(2):
        client = chat_client(Provider(stream_of(lines(events, done=True))))
        reply, _ = await say(client, wanted)
        assert reply.stop_reason == "tool_use", "`stop` behind a call means the call"
        found.append(reply.message.tool_uses[0].id)
    assert found[0] == found[1], "the same for each reading of the answer"
    assert found[0] not in {"", "call_1"}


async def test_a_recorded_tool_call() -> None:
    client = chat_client(Provider(stream_of((RECORDED / "chat_tool.sse").read_bytes())))
    reply, _ = await say(client, asked(tools=(READ_TOOL,)))
    assert reply.stop_reason == "tool_use"
    (call,) = reply.message.tool_uses
    assert call.name == "fs.read"
    assert isinstance(call.arguments["path"], str)


async def test_a_recorded_overflow() -> None:
    body = (RECORDED / "chat_overflow.json").read_bytes()
    facts = await fails(chat_client(Provider(httpx2.Response(400, content=body))), asked())
    assert facts.kind == "context_overflow"


async def test_an_overflow_without_a_word_for_it_is_told_by_our_own_count() -> None:
    client = chat_client(Provider(not_taken()), window=300)
    assert (await fails(client, asked(text="word " * 400))).kind == "context_overflow"
    assert (await fails(client, asked(text="word"))).kind == "bad_request"


async def test_what_is_sent() -> None:
    provider = Provider(stream_of(ANSWER))
    messages = (
        user_message("Read both."),
        Message(role="assistant", blocks=(TextBlock(type="text", text="Well."),)),
        call_message("a", "b"),
        Message(
            role="user", blocks=(*result_message("a", "b").blocks, *user_message("Go on.").blocks)
        ),
    )
    wanted = asked(messages=messages, tools=(READ_TOOL,), tool_choice="any", temperature=0.5)
    await say(chat_client(provider), wanted)
    (body,) = provider.bodies
    assert [one["role"] for one in body["messages"]] == [
        "system", "user", "assistant", "tool", "tool", "user",
    ]  # fmt: skip
    assert [call["id"] for call in body["messages"][2]["tool_calls"]] == ["a", "b"]
    assert body["tool_choice"] == "required"
    assert body["temperature"] == 0.5
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("refused", "lacks"),
    [
        pytest.param(["response_format"], {"json_schema"}, id="schema"),
        pytest.param(["stream"], {"streaming"}, id="stream"),
        pytest.param(["stream", "response_format"], {"json_schema", "streaming"}, id="both"),
    ],
)
async def test_what_a_server_does_not_take_is_found_out_once_and_said(
    refused: list[str], lacks: set[str]
) -> None:
    provider = picky(*refused)
    client = chat_client(provider)
    with capture_logs() as logs:
        reply, _ = await say(client, asked(json_schema=SCORE_SCHEMA))
        first = len(provider.bodies)
        again, _ = await say(client, asked(json_schema=SCORE_SCHEMA))
    assert first > 1
    assert len(provider.bodies) == first + 1, "what was learned is kept"
    assert reply.message.text == again.message.text == '{"score": 1, "gap": ""}'
    assert len([log for log in logs if log["event"] == "model_server_lacks"]) == len(lacks)
    said = " ".join(again.notes)
    assert ("takes no JSON schema" in said) == ("json_schema" in lacks)
    if "json_schema" in lacks:
        assert '"enum": [0, 1, 2, 3]' in provider.bodies[-1]["messages"][0]["content"]


async def test_a_bad_request_stays_one_however_it_is_asked() -> None:
    provider = Provider(not_taken())
    client = chat_client(provider)
    facts = await fails(client, asked(json_schema=SCORE_SCHEMA))
    assert facts.kind == "bad_request"
    assert len(provider.bodies) == 4, "as asked, and with less in every way"
    await fails(client, asked(json_schema=SCORE_SCHEMA))
    assert provider.bodies[4].get("stream"), "nothing was learned"


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
async def test_other_errors_are_not_probed(status: int) -> None:
    provider = Provider(not_taken(status))
    await fails(chat_client(provider), asked(json_schema=SCORE_SCHEMA))
    assert len(provider.bodies) == 1


async def test_what_is_declared_is_neither_tried_nor_left_out() -> None:
    provider = Provider(not_taken())
    client = chat_client(provider, has=frozenset({"json_schema"}), lacks=frozenset({"streaming"}))
    await fails(client, asked(json_schema=SCORE_SCHEMA))
    (body,) = provider.bodies
    assert "response_format" in body
    assert "stream" not in body


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(httpx2.Response(200, content=b"", headers=JSON), id="nothing"),
        pytest.param(httpx2.Response(200, json=[]), id="a list"),
        pytest.param(httpx2.Response(200, json={"choices": []}), id="no choice"),
        pytest.param(httpx2.Response(200, content=b"<html>"), id="a page"),
    ],
)
async def test_a_whole_answer_that_is_none(answer: httpx2.Response) -> None:
    client = chat_client(Provider(answer), lacks=frozenset({"streaming"}))
    assert (await fails(client, asked())).kind == "bad_reply"


async def test_a_server_that_ignores_the_wish_for_a_stream_is_read_all_the_same() -> None:
    provider = Provider(whole("A bottle."))
    reply, pieces = await say(chat_client(provider), asked())
    assert provider.bodies[0]["stream"]
    assert pieces == ["A bottle."]
    assert (reply.message.text, reply.stop_reason) == ("A bottle.", "end_turn")
    assert (reply.usage.output_tokens, reply.confirmed, reply.request_id) == (7, True, "req_1")


async def test_a_whole_answer_that_breaks_off_is_cut() -> None:
    broken = Broken(b'{"choices": [', httpx2.RemoteProtocolError("reset"))
    answer = httpx2.Response(200, headers=JSON, stream=broken)
    facts = await fails(chat_client(Provider(answer)), asked())
    assert (facts.kind, facts.confirmed) == ("cut", False)
    assert broken.closed


@pytest.mark.parametrize("media", ["text/plain", "text/plain; charset=utf-8", ""])
async def test_a_stream_that_is_not_called_one_is_read_all_the_same(media: str) -> None:
    answer = stream_of(CHAT.body("A ", "bottle."), **{"content-type": media})
    if not media:
        del answer.headers["content-type"]
    reply, pieces = await say(chat_client(Provider(answer)), asked())
    assert (reply.message.text, pieces) == ("A bottle.", ["A ", "bottle."])


@pytest.mark.parametrize(
    ("content", "media", "words"),
    [
        (b'{"a": 1}\n', "application/x-ndjson", "application/x-ndjson instead of a stream"),
        (b'{"a": 1}\n', "application/x-ndjson", "`streaming: false` in its entry"),
        (b"Welcome!", "text/plain", "`streaming: false` in its entry"),
        (b"{}", "application/json", "it does not say why it ended."),
    ],
)
async def test_what_is_no_stream_is_told_with_its_cure(
    content: bytes, media: str, words: str
) -> None:
    answer = httpx2.Response(200, content=content, headers={"content-type": media})
    facts = await fails(chat_client(Provider(answer)), asked())
    assert facts.kind == "bad_reply"
    assert words in facts.message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "upstream is busy", "code": 529}, "overloaded"),
        ({"message": "upstream is busy", "code": "slow_down"}, "overloaded"),
        ({"message": "upstream is busy", "code": 401}, "authentication"),
        ("upstream is busy", "server"),
    ],
)
@pytest.mark.parametrize("lacks", [frozenset[Feature](), frozenset[Feature]({"streaming"})])
async def test_an_error_in_the_place_of_a_whole_answer(
    error: Any, kind: str, lacks: frozenset[Feature]
) -> None:
    client = chat_client(Provider(httpx2.Response(200, json={"error": error})), lacks=lacks)
    facts = await fails(client, asked())
    assert facts.kind == kind
    assert "upstream is busy" in facts.message


async def test_a_whole_answer_is_told_at_once() -> None:
    client = chat_client(Provider(whole("Hello")), lacks=frozenset({"streaming"}))
    reply, pieces = await say(client, asked())
    assert pieces == ["Hello"]
    assert reply.usage == Usage(input_tokens=7, output_tokens=7, cache_read_tokens=5)


@pytest.mark.parametrize(
    ("word", "stop"),
    [
        ("STOP", "end_turn"),
        ("eos", "end_turn"),
        ("eos_token", "end_turn"),
        ("end_turn", "end_turn"),
        ("COMPLETE", "end_turn"),
        ("stop_sequence", "stop_sequence"),
        ("MAX_TOKENS", "max_tokens"),
        ("max_length", "max_tokens"),
        ("model_length", "context_end"),
        ("SAFETY", "refusal"),
        ("content-filter", "refusal"),
        ("weird_reason", "end_turn"),
    ],
)
async def test_finish_reasons_of_real_servers(word: str, stop: str) -> None:
    events = [chunk({"content": "A bottle."}), chunk({}, word), chat_usage()]
    reply, _ = await say(chat_client(Provider(stream_of(lines(events)))), asked())
    assert (reply.message.text, reply.stop_reason) == ("A bottle.", stop)
    assert bool(reply.notes) is (word == "weird_reason")


@pytest.mark.parametrize("word", ["stop", "STOP", "eos", "tool_use", "TOOL_CALL", "weird_reason"])
async def test_calls_count_whatever_a_server_says_after_them(word: str) -> None:
    events = [*chat_call('{"path": "a"}'), chunk({}, word), chat_usage()]
    client = chat_client(Provider(stream_of(lines(events))))
    reply, _ = await say(client, asked(tools=(READ_TOOL,)))
    assert reply.stop_reason == "tool_use"
    assert [call.arguments for call in reply.message.tool_uses] == [{"path": "a"}]


async def test_refusals_in_words_of_their_own() -> None:
    events = [chunk({"refusal": "I will not."}), chunk({}, "stop"), chat_usage()]
    reply, _ = await say(chat_client(Provider(stream_of(lines(events)))), asked())
    assert (reply.stop_reason, reply.message.text) == ("refusal", "I will not.")


async def test_a_prompt_that_the_provider_judges_is_a_refusal() -> None:
    error = {"code": "content_filter", "message": "filtered", "type": None}
    reply, _ = await say(
        chat_client(Provider(httpx2.Response(400, json={"error": error}))), asked()
    )
    assert reply.stop_reason == "refusal"
    assert reply.usage == Usage()


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(
            [chunk({"content": "a"}, "stop"), chunk({"content": "b"})], id="after the end"
        ),
        pytest.param([chunk({"content": "a"}, "stop"), chunk({}, "length")], id="two ends"),
        pytest.param([chunk({"content": "a"}, "tool_calls")], id="calls that never came"),
        pytest.param([*chat_call(name=""), chunk({}, "tool_calls")], id="no name"),
        pytest.param(
            [{"choices": [{"index": 1, "delta": {"content": "x"}}]}], id="a second choice"
        ),
    ],
)
async def test_contradictions_are_no_answer(events: list[dict[str, Any]]) -> None:
    client = chat_client(Provider(stream_of(lines(events))))
    assert (await fails(client, asked(tools=(READ_TOOL,)))).kind == "bad_reply"


async def test_a_refused_key_is_named() -> None:
    facts = await fails(chat_client(Provider(not_taken(401))), asked())
    assert facts.message.endswith("Check the API key (BOX_KEY).")


@pytest.mark.parametrize(
    ("went", "told"),
    [
        ("https://me:pw@127.0.0.1:1/login?t=1", " where box.example redirected the call, "),
        ("https://box.example/v1/other", "reached ("),
    ],
)
def test_a_redirect_to_nowhere_is_named(went: str, told: str) -> None:
    cause = httpx2.ConnectError("refused", request=httpx2.Request("GET", went))
    asked_for = httpx2.Request("POST", "https://box.example/v1/chat/completions")
    error = openai.APIConnectionError(request=asked_for)
    error.__cause__ = cause
    facts = call_error(error, None, SDK, request_id=None, streaming=False).facts
    assert told in facts.message
    assert ("https://127.0.0.1:1/ (" in facts.message) is ("redirected" in told)
    assert "pw" not in facts.message


async def test_without_a_key_nothing_is_sent() -> None:
    provider = Provider(stream_of(ANSWER))
    facts = await fails(chat_client(provider, key=None), asked())
    assert (facts.kind, facts.sent, facts.message) == ("authentication", False, "Set BOX_KEY.")
    assert provider.bodies == []


async def test_the_environment_does_not_redirect_or_authorise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.example")
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    provider = Provider(stream_of(ANSWER))
    await say(chat_client(provider), asked())
    (headers,) = provider.headers
    assert headers["authorization"] == "Bearer sk-test"
    assert headers["host"] == "box.example"
    assert headers.get("openai-organization", "") == ""


async def test_tools_with_one_wire_name_are_refused() -> None:
    tools = tuple(ToolOffer(name=name, description="", parameters={}) for name in ("a.b", "a__b"))
    facts = await fails(chat_client(Provider(stream_of(ANSWER))), asked(tools=tools))
    assert not facts.sent
    assert "Rename one" in facts.message
