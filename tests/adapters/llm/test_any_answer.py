"""Any answer, cut at any byte: a reply claims no more than what was delivered.

The streams hold everything that the Messages API allows and much that it does not. What was
delivered is read here a second time, from the bytes, and compared with the reply.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.domain.llm.errors import ModelError, ModelFacts
from perdure.domain.llm.requests import CUT_SHORT, ModelReply
from tests.adapters.llm.support import (
    READ_TOOL,
    Provider,
    block,
    end,
    request,
    say,
    sse,
    start,
    stream_of,
    text_block,
    tool_block,
)

Event = dict[str, Any]
STOPS = (
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
)
KINDS = {"server", "cut", "timeout", "bad_reply"}


class Delivered(httpx2.AsyncByteStream):
    """Bytes in pieces, then the end of the answer or an error of the transport."""

    def __init__(self, content: bytes, size: int, error: Exception | None) -> None:
        self._content, self._size, self._error = content, size, error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._content), self._size):
            yield self._content[at : at + self._size]
        if self._error is not None:
            raise self._error


@dataclass
class Told:
    """What the bytes say, read without the product's code."""

    texts: dict[int, str] = field(default_factory=dict[int, str])
    calls: dict[int, str] = field(default_factory=dict[int, str])
    closed: set[int] = field(default_factory=set[int])
    stops: list[str] = field(default_factory=list[str])
    accounted: bool = False
    begun: bool = False

    def take(self, event: Event) -> None:
        at = event.get("index", 0)
        match event:
            case {"type": "message_start"}:
                self.begun = True
            case {"type": "content_block_start", "content_block": {"type": "text", "text": text}}:
                self.texts[at] = text
            case {"type": "content_block_start", "content_block": {"type": "tool_use"}}:
                self.calls[at] = ""
            case {"delta": {"type": "text_delta", "text": text}}:
                self.texts[at] += text
            case {"delta": {"type": "input_json_delta", "partial_json": part}}:
                self.calls[at] += part
            case {"type": "content_block_stop"}:
                self.closed.add(at)
            case {"type": "message_delta", "delta": {"stop_reason": stop}}:
                self.stops += [stop] if stop else []
                self.accounted |= "output_tokens" in (event.get("usage") or {})
            case _:
                pass


def told_by(content: bytes) -> Told:
    """What whole events say; what follows the last empty line never arrived."""
    told = Told()
    for written in content.split(b"\n\n")[:-1]:
        told.take(json.loads(written.split(b"data: ", 1)[1]))
    return told


def pieces_of(text: str, at: Sequence[int]) -> list[str]:
    marks = [0, *sorted({one % (len(text) + 1) for one in at}), len(text)]
    return [text[a:b] for a, b in pairwise(marks) if a < b]


WORDS = st.sampled_from(["", "steel", "Ünd 42 \\ \n", '{"score": 3}', "data: {}\n\nevent: x", "🍶"])
MARKS = st.lists(st.integers(0, 40), max_size=3)
TEXTS = st.builds(lambda text, at: ("text", pieces_of(text, at)), WORDS, MARKS)
ARGUMENTS = st.sampled_from(
    ["", "{}", '{"path": "a"}', '{"path": "a', "[1]", '{"path": "a"} x', "null"]
)
CALLS = st.builds(lambda text, at: ("tool", pieces_of(text, at)), ARGUMENTS, MARKS)
OTHERS = st.sampled_from(
    [("thinking", []), ("signed", []), ("redacted", []), ("unheard", []), ("mixed", [])]
)


def content_of(index: int, kind: str, pieces: Sequence[str]) -> list[Event]:
    match kind:
        case "text":
            return text_block(index, *pieces)
        case "tool":
            return tool_block(index, *pieces)
        case "signed" | "thinking":
            signed: list[Event] = [{"type": "signature_delta", "signature": "s"}]
            thought: Event = {"type": "thinking_delta", "thinking": "hm"}
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            return block(index, empty, thought, *(signed if kind == "signed" else []))
        case "redacted":
            return block(index, {"type": "redacted_thinking", "data": "xyz"})
        case "mixed":
            # Deltas that do not belong to the block, and one that nobody knows.
            strange: list[Event] = [
                {"type": "input_json_delta", "partial_json": '{"path": "b"}'},
                {"type": "telepathy_delta", "text": "never said"},
            ]
            return block(index, {"type": "text", "text": ""}, *strange)
        case _:
            return block(index, {"type": "hologram", "data": "?"})


@st.composite
def answers(draw: st.DrawFn) -> list[Event]:
    """The events of an answer that keeps to the protocol, or nearly."""
    usage = draw(st.sampled_from([{}, {"output_tokens": None}, {"input_tokens": 0}, None]))
    head = start(**(usage or {}))
    if usage is None:
        head["message"]["usage"] = None
    events = [head]
    for index, (kind, pieces) in enumerate(
        draw(st.lists(st.one_of(TEXTS, CALLS, OTHERS), max_size=4))
    ):
        events += content_of(index, kind, pieces)
    reasons = draw(st.lists(st.sampled_from([*STOPS, "bored", None]), min_size=1, max_size=2))
    for reason in reasons:
        events += end(reason)[:1]
    if draw(st.booleans()):
        events[-1]["usage"] = draw(st.sampled_from([None, {}, {"output_tokens": 3}]))
    return [*events, {"type": "message_stop"}]


@st.composite
def delivered(draw: st.DrawFn) -> tuple[bytes, int, Exception | None]:
    """An answer with an event lost, doubled or exchanged now and then, cut at any byte or whole."""
    events = draw(answers())
    spot = draw(st.integers(0, len(events) - 1))
    match draw(st.sampled_from(["as sent", "as sent", "lost", "doubled", "exchanged"])):
        case "lost":
            del events[spot]
        case "doubled":
            events.insert(spot, events[spot])
        case "exchanged":
            events[spot - 1], events[spot] = events[spot], events[spot - 1]
        case _:
            pass
    content = sse(*events)
    if draw(st.booleans()):
        content = content[: draw(st.integers(0, len(content)))]
    errors = [None, httpx2.RemoteProtocolError("gone"), httpx2.ReadTimeout("silent")]
    return content, draw(st.sampled_from([7, 64, 10_000])), draw(st.sampled_from(errors))


async def answered(
    sent: tuple[bytes, int, Exception | None],
) -> tuple[ModelReply, str] | ModelFacts:
    """The reply and what was streamed, or the facts of the failure."""
    client = Provider(stream_of(Delivered(*sent))).client()
    try:
        reply, pieces = await say(client, request(tools=(READ_TOOL,)))
    except ModelError as error:
        return error.facts
    finally:
        await client.aclose()
    return reply, "".join(pieces)


def claims_no_more(reply: ModelReply, streamed: str, told: Told) -> None:
    assert told.begun, "a reply without a beginning"
    assert told.stops, "a reply without an end"
    assert len({*told.stops}) == 1, "an end that contradicts itself"
    said = [text for _, text in sorted(told.texts.items()) if text]
    written = [block.text for block in reply.message.blocks if block.type == "text"]
    assert written == said
    assert sorted(streamed) == sorted("".join(said))
    calls = [told.calls[at] for at in sorted(told.calls)]
    used = reply.message.tool_uses
    assert len(calls) - 1 <= len(used) <= len(calls)
    for use, arguments in zip(used, calls, strict=False):
        assert use.arguments == (json.loads(arguments) if is_object(arguments) else {})
        taken = is_object(arguments) or arguments in {"", "null"}
        assert bool(use.unreadable) is not taken, "the model is told of all others"
    if len(used) < len(calls):
        assert reply.stop_reason in CUT_SHORT or reply.stop_reason == "refusal"
    never_begun = [at for at, written in told.calls.items() if not written]
    assert len(used) < len(calls) or {*never_begun} <= told.closed
    assert told.accounted or not reply.confirmed


def is_object(written: str) -> bool:
    try:
        return isinstance(json.loads(written), dict)
    except ValueError:
        return False


async def holds(sent: tuple[bytes, int, Exception | None]) -> None:
    made = await answered(sent)
    if isinstance(made, ModelFacts):
        assert made.kind in KINDS, made
        assert made.message
        assert made.retryable
    else:
        claims_no_more(*made, told_by(sent[0]))


def in_any_case(examples: int) -> None:
    with asyncio.Runner() as runner:

        @settings(
            max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        )
        @given(delivered())
        def prove(sent: tuple[bytes, int, Exception | None]) -> None:
            runner.run(holds(sent))

        prove()


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(60, id="quick"),
        pytest.param(5_000, id="many", marks=[pytest.mark.slow, pytest.mark.timeout(1_200)]),
    ],
)
def test_a_reply_claims_no_more_than_was_delivered(examples: int) -> None:
    in_any_case(examples)
