"""The same answers and faults mean the same facts, whichever dialect a provider speaks."""

import re
from typing import Any

import httpx2
import pytest

from perdure.domain.llm.errors import UNUSABLE_ATTEMPTS, ModelError, tries_after
from perdure.domain.llm.usage import Usage
from tests.adapters.llm.dialects import DIALECTS, RECORDED, Dialect
from tests.adapters.llm.support import (
    READ_TOOL,
    SCORE_SCHEMA,
    Broken,
    call_message,
    fails,
    request,
    result_message,
    say,
)


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return request.param


def up_to_the_text(whole: bytes) -> bytes:
    """The events of an answer, the first with text the last of them."""
    return whole[: whole.index(b"\n\n", whole.index(b"so far")) + 2]


async def test_text_and_usage(dialect: Dialect) -> None:
    client, provider = dialect.client(dialect.stream(dialect.body("Hel", "lo")))
    reply, pieces = await say(client, request(dialect.model))
    assert (reply.message.text, pieces) == ("Hello", ["Hel", "lo"])
    assert reply.stop_reason == "end_turn"
    assert reply.usage == Usage(input_tokens=7, output_tokens=7, cache_read_tokens=5)
    assert reply.confirmed
    assert reply.request_id == "req_1"
    assert len(provider.bodies) == 1
    assert provider.bodies[0]["model"] == dialect.model.rpartition(":")[2].rpartition("/")[2]


async def test_a_recorded_answer(dialect: Dialect) -> None:
    content = (RECORDED / dialect.recorded).read_bytes()
    client, _ = dialect.client(dialect.stream(content))
    reply, pieces = await say(client, request(dialect.model))
    assert "".join(pieces) == reply.message.text != ""
    assert reply.model == "smollm2-135m-instruct"
    assert reply.usage.prompt_tokens > 0
    assert reply.usage.output_tokens == 8
    assert reply.confirmed


async def test_a_tool_is_called_by_its_own_name(dialect: Dialect) -> None:
    body = dialect.body("Well.", calls=('{"path": ', '"a"}'), stop="tool_use")
    client, provider = dialect.client(dialect.stream(body))
    reply, _ = await say(client, request(dialect.model, tools=(READ_TOOL,)))
    assert reply.stop_reason == "tool_use"
    (call,) = reply.message.tool_uses
    assert (call.name, call.arguments) == ("fs.read", {"path": "a"})
    assert call.id
    assert "fs__read" in str(provider.bodies[0]["tools"])


@pytest.mark.parametrize(
    ("written", "why"),
    [
        pytest.param('{"path": "a", "path": "b"}', "'path' is given twice", id="a name twice"),
        pytest.param('{"path": "a', "this is no JSON: Unterminated string", id="no end"),
        pytest.param('{"path": "a"} x', "this is no JSON: Extra data", id="more behind it"),
        pytest.param('["a"]', "this is a list where an object belongs", id="a list"),
        pytest.param("true", "this is true or false where an object belongs", id="no object"),
        pytest.param("null", "", id="null"),
    ],
)
async def test_unreadable_arguments_are_told_to_the_model(
    dialect: Dialect, written: str, why: str
) -> None:
    body = dialect.body(calls=(written,), stop="tool_use")
    client, _ = dialect.client(dialect.stream(body))
    reply, _ = await say(client, request(dialect.model, tools=(READ_TOOL,)))
    (call,) = reply.message.tool_uses
    assert (reply.stop_reason, call.name, call.arguments) == ("tool_use", "fs.read", {})
    assert why in call.unreadable
    assert bool(call.unreadable) is bool(why)


@pytest.mark.parametrize("written", ['{"path": "a', "[1]", "null"])
async def test_half_a_call_is_never_acted_on(dialect: Dialect, written: str) -> None:
    body = dialect.body("So", calls=(written,), stop="max_tokens")
    client, _ = dialect.client(dialect.stream(body))
    reply, _ = await say(client, request(dialect.model, tools=(READ_TOOL,)))
    assert reply.stop_reason == "max_tokens"
    assert reply.message.tool_uses == ()
    assert reply.cut_call == "fs.read"
    assert reply.message.text == "So"


async def test_a_refusal_is_an_answer(dialect: Dialect) -> None:
    client, _ = dialect.client(dialect.stream(dialect.body("I", stop="refusal")))
    reply, _ = await say(client, request(dialect.model))
    assert reply.stop_reason == "refusal"


@pytest.mark.parametrize(
    ("calls", "stop"), [((), "end_turn"), (('{"path": "a"}',), "tool_use")], ids=["text", "call"]
)
async def test_what_ended_for_an_unknown_reason_is_taken_as_it_came(
    dialect: Dialect, calls: tuple[str, ...], stop: str
) -> None:
    client, _ = dialect.client(dialect.stream(dialect.body("I", calls=calls, stop="unknown")))
    reply, _ = await say(client, request(dialect.model, tools=(READ_TOOL,)))
    # The Responses API says itself that such an answer is not whole.
    incomplete = dialect.name == "responses"
    assert reply.stop_reason == ("max_tokens" if incomplete else stop)
    assert reply.message.text == "I"
    assert [call.arguments for call in reply.message.tool_uses] == [{"path": "a"}] * len(calls)
    assert reply.usage.output_tokens == 7
    assert "'bored'" in "".join(reply.notes) or incomplete


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("error", "server"),
        ("abort", "server"),
        ("insufficient_system_resource", "overloaded"),
        ("MALFORMED_FUNCTION_CALL", "bad_reply"),
    ],
)
async def test_an_end_that_says_it_failed_is_no_answer(
    dialect: Dialect, word: str, kind: str
) -> None:
    body = dialect.written(dialect.events(["so"], [], word))
    facts = await fails(dialect.client(dialect.stream(body))[0], request(dialect.model))
    assert facts.kind == kind
    assert facts.confirmed
    assert facts.usage.output_tokens == 7
    assert f"{word!r}" in facts.message


@pytest.mark.parametrize("output", [0, None])
async def test_a_text_that_is_said_to_have_cost_nothing_has_no_usage(
    dialect: Dialect, output: int | None
) -> None:
    told = dialect.body("word " * 40)
    given = "null" if output is None else str(output)
    untrue = re.sub(rb'(output|completion)_tokens": 7', rb'\1_tokens": ' + given.encode(), told)
    assert untrue != told
    client, _ = dialect.client(dialect.stream(untrue))
    reply, _ = await say(client, request(dialect.model))
    assert not reply.confirmed
    assert 20 < reply.usage.output_tokens < 100


async def test_without_an_account_the_usage_is_our_own_count(dialect: Dialect) -> None:
    client, _ = dialect.client(dialect.stream(dialect.body("word " * 40, usage=False)))
    reply, _ = await say(client, request(dialect.model))
    assert not reply.confirmed
    assert 20 < reply.usage.output_tokens < 100


@pytest.mark.parametrize(
    "kind",
    [
        "authentication",
        "permission",
        "unknown_model",
        "rate_limited",
        "context_overflow",
        "server",
        "overloaded",
        "bad_request",
    ],
)
async def test_error_statuses(dialect: Dialect, kind: str) -> None:
    client, _ = dialect.client(dialect.error(kind))
    facts = await fails(client, request(dialect.model))
    assert facts.kind == kind
    assert facts.status == dialect.errors[kind][0]
    assert facts.request_id == "req_1"
    assert facts.sent
    assert facts.confirmed
    assert facts.usage == Usage()
    assert facts.message.startswith(f"The model provider answered {facts.status} ")
    assert "no luck." in facts.message


async def test_the_provider_says_when_to_come_back(dialect: Dialect) -> None:
    client, provider = dialect.client(dialect.error("rate_limited", **{"retry-after": "17"}))
    assert (await fails(client, request(dialect.model))).retry_after_s == 17.0
    assert len(provider.bodies) == 1, "the client must not retry by itself"


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_page_in_the_place_of_an_error(dialect: Dialect, status: int) -> None:
    page = httpx2.Response(status, content=b"<html>gateway</html>")
    facts = await fails(dialect.client(page)[0], request(dialect.model))
    assert facts.retryable
    assert facts.status == status


async def test_an_error_inside_the_stream(dialect: Dialect) -> None:
    events = [*dialect.events(["so far " * 9], [], dialect.stops["end_turn"], usage=False)]
    cut = [*events[: 3 if dialect.name != "responses" else 4], dialect.error_in_stream]
    facts = await fails(
        dialect.client(dialect.stream(dialect.written(cut)))[0], request(dialect.model)
    )
    assert facts.kind == "overloaded"
    assert not facts.confirmed
    assert facts.usage.output_tokens > 5


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(httpx2.RemoteProtocolError("peer closed"), "cut", id="protocol"),
        pytest.param(httpx2.ReadError("reset"), "cut", id="reset"),
        pytest.param(httpx2.ReadTimeout("silence"), "timeout", id="silence"),
    ],
)
async def test_a_broken_stream(dialect: Dialect, error: Exception, kind: str) -> None:
    whole = dialect.body("so far " * 9)
    stream = Broken(up_to_the_text(whole), error)
    facts = await fails(dialect.client(dialect.stream(stream))[0], request(dialect.model))
    assert facts.kind == kind
    assert facts.retryable
    assert not facts.confirmed
    assert facts.usage.output_tokens > 5
    assert facts.request_id == "req_1"
    assert stream.closed


async def test_what_is_cut_at_any_byte_claims_no_more_than_was_delivered(dialect: Dialect) -> None:
    whole = dialect.body("Well, ", "so far.", calls=('{"path": ', '"a"}'), stop="tool_use")
    kinds: set[str] = set()
    for size in range(0, len(whole), 113):
        client, _ = dialect.client(dialect.stream(whole[:size]))
        try:
            reply, _ = await say(client, request(dialect.model, tools=(READ_TOOL,)))
        except ModelError as error:
            kinds.add(error.facts.kind)
            continue
        assert reply.stop_reason == "tool_use", "only after its end"
        assert reply.message.text == "Well, so far."
        assert [call.arguments for call in reply.message.tool_uses] == [{"path": "a"}]
    assert kinds <= {"cut", "bad_reply"}


async def test_a_stream_that_just_ends_is_an_answer_that_cannot_be_used(dialect: Dialect) -> None:
    whole = dialect.body("so far " * 9)
    half = dialect.stream(up_to_the_text(whole))
    facts = await fails(dialect.client(half)[0], request(dialect.model))
    assert facts.kind == "bad_reply"
    assert "does not say why it ended" in facts.message
    assert tries_after(facts.kind, tries=8) == UNUSABLE_ATTEMPTS
    assert not facts.confirmed


async def test_a_stream_that_ends_before_anything_came_is_cut(dialect: Dialect) -> None:
    empty = dialect.stream(b": keep-alive\n\n")
    facts = await fails(dialect.client(empty)[0], request(dialect.model))
    assert (facts.kind, facts.usage) == ("cut", Usage())


@pytest.mark.parametrize(
    ("error", "kind", "sent"),
    [
        pytest.param(httpx2.ConnectError("refused"), "connection", False, id="refused"),
        pytest.param(httpx2.ConnectTimeout("slow"), "timeout", False, id="connect timeout"),
        pytest.param(httpx2.ReadTimeout("slow"), "timeout", True, id="read timeout"),
        pytest.param(httpx2.ReadError("reset"), "connection", True, id="reset"),
    ],
)
async def test_no_answer_at_all(dialect: Dialect, error: Exception, kind: str, sent: bool) -> None:
    facts = await fails(dialect.client(error)[0], request(dialect.model))
    assert (facts.kind, facts.sent, facts.retryable) == (kind, sent, True)


@pytest.mark.parametrize(
    ("content", "media"),
    [
        pytest.param(b"", "text/plain", id="nothing"),
        pytest.param(b'{"id": 1}', "application/json", id="plain JSON"),
        pytest.param(b"data: {no json\n\n", "text/event-stream", id="broken JSON"),
        pytest.param(b"data: 7\n\n", "text/event-stream", id="a number"),
    ],
)
async def test_something_else_with_status_200(dialect: Dialect, content: bytes, media: str) -> None:
    answer = httpx2.Response(200, content=content, headers={"content-type": media})
    facts = await fails(dialect.client(answer)[0], request(dialect.model))
    assert facts.kind == "bad_reply" or (dialect.name == "messages" and facts.kind == "cut")
    assert facts.retryable


async def test_a_page_of_a_gateway_is_an_outage_and_not_an_answer(dialect: Dialect) -> None:
    media = "text/html; charset=utf-8"
    page = httpx2.Response(200, content=b"<html>soon</html>", headers={"content-type": media})
    facts = await fails(dialect.client(page)[0], request(dialect.model))
    assert (facts.kind, facts.retryable) == ("server", True)
    assert "a page for people. Check the base URL" in facts.message


async def test_a_tool_round_goes_back_as_it_came(dialect: Dialect) -> None:
    client, provider = dialect.client(dialect.stream(dialect.body("Done.")))
    messages = (
        *request().messages,
        call_message("call_1", "a:b/c"),
        result_message("call_1", "a:b/c", outcome="error", text="no such file"),
    )
    await say(client, request(dialect.model, messages=messages, tools=(READ_TOOL,)))
    sent = str(provider.bodies[0])
    assert "a:b/c" not in sent.replace("'path': 'a:b/c'", "").replace('"path": "a:b/c"', "")
    assert sent.count("a_b_c_") == 2, "the call and its result keep one id"
    assert "no such file" in sent


async def test_structured_output_is_asked_for(dialect: Dialect) -> None:
    client, provider = dialect.client(dialect.stream(dialect.body('{"score": 1, "gap": ""}')))
    reply, _ = await say(client, request(dialect.model, json_schema=SCORE_SCHEMA))
    assert reply.message.text == '{"score": 1, "gap": ""}'
    assert "json_schema" in str(provider.bodies[0])
    assert reply.notes == ()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"max_tokens": 0}, id="no room"),
        pytest.param({"tool_choice": "any"}, id="a tool of none"),
        pytest.param({"tool_choice": "fs.read"}, id="a tool that is not offered"),
        pytest.param({"messages": ()}, id="nothing to say"),
        pytest.param({"messages": (call_message("a"),)}, id="a call without a result"),
    ],
)
async def test_what_nobody_takes_is_not_sent(dialect: Dialect, changes: dict[str, Any]) -> None:
    client, provider = dialect.client(dialect.stream(dialect.body("x")))
    facts = await fails(client, request(dialect.model, **changes))
    assert (facts.kind, facts.sent) == ("bad_request", False)
    assert provider.bodies == []


async def test_a_proxy_that_refuses_is_told_with_its_variables(dialect: Dialect) -> None:
    client, _ = dialect.client(httpx2.ProxyError("403 Forbidden"))
    facts = await fails(client, request(dialect.model))
    assert (facts.kind, facts.sent, facts.confirmed) == ("connection", False, True)
    assert "403 Forbidden" in facts.message
    assert "HTTPS_PROXY" in facts.message
