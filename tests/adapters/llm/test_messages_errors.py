"""Every way in which a call to the Messages API is known to fail, as facts."""

import asyncio
import errno
from typing import Any

import httpx2
import pytest

from perdure.domain.llm.requests import ModelProfile
from perdure.domain.llm.usage import Usage
from tests.adapters.llm.support import (
    READ_TOOL,
    Broken,
    Provider,
    end,
    events,
    fails,
    hello,
    problem,
    request,
    sse,
    start,
    stream_of,
    text_block,
)

HALF = [start(cache_read_input_tokens=5), *text_block(0, "so far")]


@pytest.mark.parametrize(
    ("status", "provider_type", "kind", "retryable"),
    [
        (400, "invalid_request_error", "bad_request", False),
        (400, None, "bad_request", False),
        (401, "authentication_error", "authentication", False),
        (401, "api_error", "authentication", False),
        (401, "rate_limit_error", "authentication", False),
        (401, "invalid_api_key", "authentication", False),
        (402, "billing_error", "permission", False),
        (403, "api_error", "permission", False),
        (404, "api_error", "unknown_model", False),
        (403, "permission_error", "permission", False),
        (404, "not_found_error", "unknown_model", False),
        (408, "timeout_error", "timeout", True),
        (409, "conflict_error", "server", True),
        (413, "request_too_large", "too_large", False),
        (413, "invalid_request_error", "too_large", False),
        (422, "invalid_request_error", "bad_request", False),
        (429, "rate_limit_error", "rate_limited", True),
        (429, None, "rate_limited", True),
        (499, None, "bad_request", False),
        (500, "api_error", "server", True),
        (500, "never_heard_of", "server", True),
        (501, None, "server", True),
        (502, None, "server", True),
        (503, None, "server", True),
        (504, "timeout_error", "timeout", True),
        (529, "overloaded_error", "overloaded", True),
        (529, None, "overloaded", True),
    ],
)
async def test_status(status: int, provider_type: str | None, kind: str, retryable: bool) -> None:
    provider = Provider(problem(status, provider_type))
    facts = await fails(provider.client(), request())
    assert (facts.kind, facts.status, facts.retryable) == (kind, status, retryable)
    assert facts.provider_code == provider_type
    assert facts.request_id == "req_1"
    assert facts.sent
    assert len(provider.bodies) == 1, "the SDK must not retry by itself"


async def test_retry_after_is_part_of_the_facts() -> None:
    limited = problem(429, "rate_limit_error", **{"retry-after": "17"})
    assert (await fails(Provider(limited).client(), request())).retry_after_s == 17.0


@pytest.mark.parametrize(
    ("provider_type", "kind"),
    [
        ("overloaded_error", "overloaded"),
        ("api_error", "server"),
        ("rate_limit_error", "rate_limited"),
        ("invalid_request_error", "bad_request"),
        ("something_new", "server"),
    ],
)
async def test_error_event_inside_a_stream_is_told_by_its_type(
    provider_type: str, kind: str
) -> None:
    error = {"type": "error", "error": {"type": provider_type, "message": "no luck"}}
    facts = await fails(Provider(events(*HALF, error)).client(), request())
    assert facts.kind == kind
    assert facts.status == 200
    assert facts.request_id == "req_1"
    # Two tokens were streamed; the head of the answer told of one, and its end never came.
    assert facts.usage == Usage(input_tokens=10, output_tokens=2, cache_read_tokens=5)
    assert not facts.confirmed


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(httpx2.RemoteProtocolError("peer closed"), "cut", id="protocol"),
        pytest.param(httpx2.ReadError("reset"), "cut", id="reset"),
        pytest.param(httpx2.ReadTimeout("silence"), "timeout", id="silence"),
    ],
)
async def test_broken_stream_keeps_its_usage_and_is_closed(error: Exception, kind: str) -> None:
    stream = Broken(sse(*HALF), error)
    facts = await fails(Provider(stream_of(stream)).client(), request())
    assert facts.kind == kind
    assert facts.retryable
    assert facts.sent
    assert facts.usage.input_tokens == 10
    assert facts.request_id == "req_1"
    assert stream.closed


@pytest.mark.parametrize(
    ("error", "kind", "sent"),
    [
        pytest.param(httpx2.ConnectError("refused"), "connection", False, id="refused"),
        pytest.param(httpx2.ConnectTimeout("slow"), "timeout", False, id="connect timeout"),
        pytest.param(httpx2.ProxyError("403 Forbidden"), "connection", False, id="by the proxy"),
        pytest.param(httpx2.LocalProtocolError("header"), "connection", False, id="no header"),
        pytest.param(httpx2.ReadTimeout("slow"), "timeout", True, id="read timeout"),
        pytest.param(httpx2.RemoteProtocolError("gone"), "connection", True, id="no answer"),
        pytest.param(httpx2.ReadError("reset"), "connection", True, id="reset"),
    ],
)
async def test_no_answer_at_all(error: Exception, kind: str, sent: bool) -> None:
    facts = await fails(Provider(error).client(), request())
    assert (facts.kind, facts.sent, facts.retryable) == (kind, sent, True)


async def test_a_request_with_half_a_character_is_not_sent() -> None:
    provider = Provider(events(*hello()))
    facts = await fails(provider.client(), request(text="half \ud83d of one"))
    assert (facts.kind, facts.sent, facts.confirmed) == ("bad_request", False, True)
    assert provider.bodies == []


async def test_a_refused_connection_is_named_in_words() -> None:
    error = httpx2.ConnectError("All connection attempts failed")
    error.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")
    facts = await fails(Provider(error).client(), request())
    assert facts.message == "The model provider was not reached (connection refused)."


@pytest.mark.parametrize(
    ("items", "kind"),
    [
        pytest.param(HALF, "bad_reply", id="in the middle"),
        pytest.param([], "cut", id="before the first event"),
        pytest.param([start(), *end(None)], "bad_reply", id="without a stop reason"),
    ],
)
async def test_a_stream_that_just_ends(items: list[dict[str, Any]], kind: str) -> None:
    facts = await fails(Provider(events(*items)).client(), request())
    assert facts.kind == kind
    assert facts.retryable


def ok(content: bytes, media: str) -> httpx2.Response:
    return httpx2.Response(200, content=content, headers={"content-type": media})


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ok(b'{"id": "msg_1", "content": []}', "application/json"), id="plain JSON"),
        pytest.param(ok(b"", "text/plain"), id="nothing"),
        pytest.param(stream_of(b"event: message_start\ndata: {no json\n\n"), id="broken JSON"),
        pytest.param(
            stream_of(b'event: message_start\ndata: {"type": "message_start"}\n\n'), id="bare"
        ),
        pytest.param(events(start(), *text_block(0, "x")[1:]), id="delta without block"),
        pytest.param(events(*hello()[1:]), id="answer without a beginning"),
        pytest.param(events(*end()), id="nothing but an end"),
        pytest.param(events(*text_block(0, "x"), start(), *end()), id="late beginning"),
        pytest.param(
            events({**start(), "message": {**start()["message"], "id": None}}),
            id="message without id",
        ),
    ],
)
async def test_status_200_with_something_else(answer: httpx2.Response) -> None:
    facts = await fails(Provider(answer).client(), request(tools=(READ_TOOL,)))
    assert facts.kind == "bad_reply"
    assert facts.retryable


async def test_without_a_key_nothing_is_sent() -> None:
    provider = Provider(events(*hello()))
    facts = await fails(provider.client(api_key=None), request())
    assert facts.kind == "authentication"
    assert not facts.sent
    assert "ANTHROPIC_API_KEY" in facts.message
    assert provider.bodies == []


async def test_the_environment_does_not_redirect_or_authorise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-environment")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://elsewhere.example")
    provider = Provider(events(*hello()))
    assert (await fails(provider.client(api_key=None), request())).kind == "authentication"
    await provider.client().call(request(), on_text=lambda _: None)
    (headers,) = provider.headers
    assert headers["authorization"] == "Bearer sk-test"
    assert headers["host"] == "models.example"


@pytest.mark.parametrize(
    ("counted", "kind"),
    [
        pytest.param(200_000, "context_overflow", id="larger than the window"),
        pytest.param(900, "bad_request", id="small prompt"),
        pytest.param(None, "bad_request", id="no count"),
    ],
)
async def test_overflow_is_told_by_the_providers_count(counted: int | None, kind: str) -> None:
    provider = Provider(problem(400, "invalid_request_error"), count=counted)
    client = provider.client(cards=lambda name: ModelProfile(name=name, price=None, window=200_000))
    facts = await fails(client, request())
    assert facts.kind == kind
    assert facts.status == 400


async def test_overflow_is_told_by_type_where_there_is_one() -> None:
    provider = Provider(problem(400, "exceed_context_size_error"))
    assert (await fails(provider.client(), request())).kind == "context_overflow"
    assert provider.counted == []


async def test_cancelling_closes_the_stream() -> None:
    class Endless(httpx2.AsyncByteStream):
        closed = False

        async def __aiter__(self):  # type: ignore[no-untyped-def]
            yield sse(*HALF)
            await asyncio.Event().wait()

        async def aclose(self) -> None:
            self.closed = True

    stream, began = Endless(), asyncio.Event()
    client = Provider(stream_of(stream)).client()
    call = asyncio.ensure_future(client.call(request(), on_text=lambda _: began.set()))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert stream.closed


async def test_an_error_of_the_listener_is_not_the_providers() -> None:
    def listen(_: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Provider(events(*hello())).client().call(request(), on_text=listen)
