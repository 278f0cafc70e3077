"""What single compatible servers do that the documents of chat completions do not say."""

import asyncio
from typing import Any

import httpx2
import pytest

from perdure.adapters.llm.call_failures import READ_TIMEOUT_S
from perdure.adapters.llm.openai_dialects.server import Feature
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.usage import Usage
from tests.adapters.llm.dialects import CHAT, chat_call, chat_client, chat_usage, chunk, lines
from tests.adapters.llm.support import (
    READ_TOOL,
    SCORE_SCHEMA,
    Broken,
    Provider,
    fails,
    request,
    say,
    stream_of,
)

MODEL = CHAT.model
A, B = ({"name": "fs__read", "arguments": f'{{"path": "{name}"}}'} for name in "ab")


def asked(**changes: Any) -> Any:
    return request(MODEL, **changes)


async def test_calls_under_one_index_keep_the_pieces_of_their_own_arguments() -> None:
    """Some servers give every call of an answer the index 0, and an id to its first piece only."""
    calls = [*chat_call('{"path"', ': "a"}'), *chat_call('{"path"', ': "b"}', id="call_2")]
    events = [*calls, chunk({}, "tool_calls"), chat_usage()]
    client = chat_client(Provider(stream_of(lines(events, done=True))))
    reply, _ = await say(client, asked(tools=(READ_TOOL,)))
    found = [(call.id, call.arguments) for call in reply.message.tool_uses]
    assert found == [("call_1", {"path": "a"}), ("call_2", {"path": "b"})]


async def test_an_id_that_comes_late_is_that_of_the_call_with_its_index() -> None:
    calls: list[dict[str, Any]] = []
    for at in (0, 1):
        calls += chat_call('{"path": ', index=at, id="")
        calls += chat_call('"a"}', index=at, id=f"call_{at}", name="")
    events = [*calls, chunk({}, "tool_calls"), chat_usage()]
    client = chat_client(Provider(stream_of(lines(events, done=True))))
    reply, _ = await say(client, asked(tools=(READ_TOOL,)))
    found = [(call.id, call.arguments) for call in reply.message.tool_uses]
    assert found == [("call_0", {"path": "a"}), ("call_1", {"path": "a"})]


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("said", "text", "arguments"),
    [
        pytest.param({"content": [{"type": "text", "text": "Yes."}]}, "Yes.", [], id="parts"),
        pytest.param({"content": ["Y", {"text": "es."}, {"image": 1}]}, "Yes.", [], id="odd parts"),
        pytest.param(
            {"tool_calls": [{"id": "c", "function": {"name": "fs__read", "arguments": {}}}]},
            "",
            [{}],
            id="no arguments",
        ),
        pytest.param(
            {
                "content": None,
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "c",
                        "function": {"name": "fs__read", "arguments": {"path": "a"}},
                    }
                ],
            },
            "",
            [{"path": "a"}],
            id="arguments as an object",
        ),
    ],
)
async def test_shapes_of_real_servers_are_read(
    said: dict[str, Any], text: str, arguments: list[Any], *, streams: bool
) -> None:
    ends = "tool_calls" if arguments else "stop"
    choice = {"index": None, "finish_reason": None, "message": None, "delta": None}
    usage = chat_usage()["usage"]
    if streams:
        choices = ({**choice, "delta": said}, {**choice, "finish_reason": ends})
        first, last = ({"model": None, "choices": [one]} for one in choices)
        answer = stream_of(lines([first, {**last, "usage": usage}], done=True))
    else:
        whole = {**choice, "message": said, "finish_reason": ends}
        answer = httpx2.Response(200, json={"choices": [whole], "usage": usage, "error": None})
    reply, _ = await say(chat_client(Provider(answer)), asked(tools=(READ_TOOL,)))
    assert reply.message.text == text
    assert [call.arguments for call in reply.message.tool_uses] == arguments
    assert reply.confirmed


def nameless(*calls: dict[str, Any], **shape: Any) -> list[dict[str, Any]]:
    """Calls that have no ids of their own."""
    return [{**shape, "type": "function", "function": function} for function in calls]


@pytest.mark.parametrize(
    "shape",
    [{}, {"id": ""}, {"index": 0, "id": ""}, {"index": None, "id": None}, {"id": "call_0"}],
    ids=["neither", "empty id", "one index", "nulls", "one id"],
)
async def test_each_entry_of_a_whole_answer_is_a_call(shape: dict[str, Any]) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": nameless(A, B, **shape)}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    answer = httpx2.Response(200, json={"model": "box-1", "choices": [choice]})
    reply, _ = await say(chat_client(Provider(answer)), asked(tools=(READ_TOOL,)))
    calls = reply.message.tool_uses
    assert [call.arguments for call in calls] == [{"path": "a"}, {"path": "b"}]
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize("shape", [{"index": 0, "id": ""}, {"id": None}, {"index": 0}])
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([A, B], id="whole"),
        pytest.param(
            [
                {"name": "fs__read", "arguments": ""},
                {"arguments": '{"path": '},
                {"name": "", "arguments": '"a"}'},
                {"name": "fs__read", "arguments": ""},
                {"arguments": '{"path": "b"}'},
            ],
            id="in pieces",
        ),
        pytest.param(
            [
                {"name": "fs__read", "arguments": '{"path": '},
                {"name": "fs__read", "arguments": '"a"}'},
                B,
            ],
            id="the name again",
        ),
    ],
)
async def test_without_ids_a_name_after_whole_arguments_begins_a_call(
    pieces: list[dict[str, Any]], shape: dict[str, Any]
) -> None:
    events = [chunk({"tool_calls": nameless(piece, **shape)}) for piece in pieces]
    sent = stream_of(lines([*events, chunk({}, "tool_calls"), chat_usage()], done=True))
    reply, _ = await say(chat_client(Provider(sent)), asked(tools=(READ_TOOL,)))
    assert [call.arguments for call in reply.message.tool_uses] == [{"path": "a"}, {"path": "b"}]
    assert not any(call.unreadable for call in reply.message.tool_uses)


@pytest.mark.parametrize(
    ("told", "output"),
    [
        pytest.param({"total_tokens": 135}, 103, id="thoughts in the total alone"),
        pytest.param({"total_tokens": 41}, 9, id="as documented"),
        pytest.param({"total_tokens": 9}, 9, id="a total of something else"),
        pytest.param({}, 9, id="no total"),
    ],
)
async def test_thoughts_that_only_the_total_holds_are_output(
    told: dict[str, int], output: int
) -> None:
    usage = {"prompt_tokens": 32, "completion_tokens": 9, **told}
    events = [chunk({"content": "Yes."}, "stop"), chunk(usage=usage)]
    reply, _ = await say(chat_client(Provider(stream_of(lines(events, done=True)))), asked())
    assert reply.usage == Usage(input_tokens=32, output_tokens=output)
    assert reply.confirmed


def running(output: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": 12, "completion_tokens": output}}


@pytest.mark.parametrize("output", [3, 900])
async def test_a_running_usage_is_not_that_of_an_answer_that_breaks_off(output: int) -> None:
    """Some servers tell with each chunk what was used so far; the rest is billed all the same."""
    said = "word " * 40
    sent = lines([chunk({"content": said}, **running(output))])
    broken = Broken(sent, httpx2.RemoteProtocolError("reset"))
    facts = await fails(chat_client(Provider(stream_of(broken))), asked())
    assert (facts.kind, facts.confirmed) == ("cut", False)
    counted = max(output, estimate(said).total)
    assert facts.usage == Usage(input_tokens=12, output_tokens=counted)


async def test_the_last_of_a_running_usage_counts() -> None:
    events = [chunk({"content": "Yes."}, **running(3)), chunk({}, "stop", **running(5))]
    for more, output in (([], 5), ([chunk(**running(7))], 7)):
        sent = stream_of(lines([*events, *more], done=True))
        reply, _ = await say(chat_client(Provider(sent)), asked())
        assert (reply.confirmed, reply.usage.output_tokens) == (True, output)


@pytest.mark.parametrize(
    ("before", "with_stop", "confirmed", "output"),
    [
        pytest.param([chunk({"role": "assistant"}, **running(1))], {}, False, 40, id="first"),
        pytest.param([], running(0), False, 40, id="nothing beside a text"),
        pytest.param([], running(60), True, 60, id="with the finish reason"),
    ],
)
async def test_a_usage_that_leaves_out_the_text_is_none(
    before: list[Any], with_stop: dict[str, Any], output: int, *, confirmed: bool
) -> None:
    events = [*before, chunk({"content": "word " * 40}), chunk({}, "stop", **with_stop)]
    client = chat_client(Provider(stream_of(lines(events, done=True))))
    reply, _ = await say(client, asked())
    assert (reply.confirmed, reply.usage.output_tokens >= output) == (confirmed, True)


async def test_a_usage_with_the_last_piece_is_that_of_the_answer() -> None:
    events = [chunk({"content": "Yes."}, **running(5)), chunk({}, "stop")]
    reply, _ = await say(chat_client(Provider(stream_of(lines(events, done=True)))), asked())
    assert (reply.confirmed, reply.usage.output_tokens) == (True, 5)


async def test_what_a_server_lacks_stays_known_when_an_earlier_call_is_answered() -> None:
    """Such a call was sent before that was known, and was answered after it."""
    known, bodies = asyncio.Event(), list[bytes]()

    async def answer(sent: httpx2.Request) -> httpx2.Response:
        bodies.append(sent.content)
        if b"response_format" in sent.content:
            return httpx2.Response(400, json={"error": {"message": "not supported"}})
        if b"earlier" in sent.content:
            await known.wait()
        return stream_of(CHAT.body("{}"))

    client = chat_client(Provider())
    client._transport = httpx2.MockTransport(answer)
    wanted = asked(json_schema=SCORE_SCHEMA)
    earlier = asyncio.create_task(say(client, asked(text="earlier")))
    await asyncio.sleep(0.05)
    await say(client, wanted)
    known.set()
    await earlier
    sent = len(bodies)
    await say(client, wanted)
    assert len(bodies) == sent + 1, "it is not asked for a schema again"


@pytest.mark.parametrize("whole", [True, False])
async def test_a_whole_answer_may_take_as_long_as_the_call(whole: bool) -> None:
    """No byte of it comes before the model has said everything, however slow it is."""
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        choice = {"index": 0, "finish_reason": "stop", "message": {"content": "Yes."}}
        said = httpx2.Response(200, json={**chat_usage(), "choices": [choice]})
        return said if whole else stream_of(CHAT.body("Yes."))

    lacks = frozenset[Feature]({"streaming"} if whole else ())
    await say(chat_client(Provider(answer), lacks=lacks), asked())
    limits = sent[0].extensions["timeout"]
    assert (limits["connect"], limits["read"]) == (5.0, None if whole else READ_TIMEOUT_S)


def failing(events: list[dict[str, Any]]) -> Provider:
    """A server whose streams are these events, and that refuses calls without a stream."""

    def answer(sent: httpx2.Request) -> httpx2.Response:
        if b'"stream"' in sent.content:
            return stream_of(lines(events, done=True))
        return httpx2.Response(400, json={"error": {"message": "upstream"}})

    return Provider(answer)


@pytest.mark.parametrize(
    ("code", "said", "kind", "sent"),
    [
        pytest.param(402, True, "permission", 1, id="no credit is left"),
        pytest.param("429", True, "rate_limited", 1, id="a status as a text"),
        pytest.param(503, False, "server", 1, id="an outage"),
        pytest.param(400, True, "bad_request", 1, id="refused after its first words"),
        pytest.param(400, False, "bad_request", 2, id="refused, perhaps for a feature"),
        pytest.param("engine_error", True, "server", 1, id="a word of its own"),
    ],
)
async def test_an_error_in_a_stream_counts_by_the_status_that_it_repeats(
    code: int | str, said: bool, kind: str, sent: int
) -> None:
    begun = [chunk({"content": "Yes"})] if said else []
    error = {"message": "upstream", "type": "Oops", "param": None, "code": code}
    provider = failing([*begun, {"error": error}])
    facts = await fails(chat_client(provider), asked())
    assert (facts.kind, len(provider.bodies)) == (kind, sent)
    assert "upstream" in facts.message


async def test_an_overflow_that_is_told_in_the_stream_is_one() -> None:
    error = {"message": "too long", "type": "BadRequestError", "code": 400}
    provider = failing([{"error": error}])
    facts = await fails(chat_client(provider, window=300), asked(text="word " * 400))
    assert facts.kind == "context_overflow"


async def test_what_no_header_carries_is_not_sent() -> None:
    provider = Provider(stream_of(b""))
    facts = await fails(chat_client(provider, key="sk\N{EN DASH}test"), asked())
    assert (facts.kind, facts.sent, facts.confirmed) == ("authentication", False, True)
    assert "the API key (BOX_KEY)" in facts.message
    assert provider.bodies == []
