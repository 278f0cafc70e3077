"""Servers that say too much, or what nobody can read: by bytes, and by programs that do it."""

import gzip
import json
import sys
from contextlib import asynccontextmanager

import httpx2
import mcp.types as wire
import pytest

from perdure.adapters.mcp import bounds
from perdure.adapters.mcp.bounds import BoundedTransport, Messages, TooMuch
from perdure.domain.foundation.errors import InvalidInput

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"a":"x"}}\n'
NOTICE = (
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n'
)
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
LOG = b'{"level": "info"}\nready\n'

# A server that answers by the book until its tool is called.
SERVER = """
import json, sys
out = sys.stdout.buffer
for line in sys.stdin:
    asked = json.loads(line)
    number = asked.get("id")
    given = {
        "initialize": {"protocolVersion": asked.get("params", {}).get("protocolVersion"),
                       "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]},
    }.get(asked["method"], {})
    if number is None:
        continue
    if asked["method"] == "WHEN":
        while True:
            out.write(WHAT)
            out.flush()
    out.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": given}).encode() + b"\\n")
    out.flush()
"""


def read(*chunks):
    messages = Messages()
    return [message for chunk in chunks for message in messages.feed(chunk)]


def test_messages_are_read_however_they_are_cut():
    text = LOG + ANSWER + NOTICE
    whole = read(text)
    assert [type(one) for one in whole] == [wire.JSONRPCResponse, wire.JSONRPCNotification]
    assert read(*(bytes([byte]) for byte in text)) == whole


def test_half_a_character_is_replaced_and_the_answer_arrives():
    [answer] = read(ANSWER.replace(b'"x"', b'"half\\ud83d"'))
    assert answer.model_dump()["result"] == {"a": "half\N{REPLACEMENT CHARACTER}"}
    [answer] = read(ANSWER.replace(b'"x"', b'"half\xe9"'))
    assert answer.model_dump()["result"] == {"a": "half\N{REPLACEMENT CHARACTER}"}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([b"x" * bounds.MIB] * 33, "sent a message of more than 33,554,432 bytes"),
        ([ANSWER.replace(b'"x"', b"[" + b"1," * 600_000 + b"1]")], "of more than 500,000 values"),
        ([b"xxxx\n" * 300_000], "wrote more than 1,048,576 bytes that are no messages"),
        ([LOG * 60_000], "wrote more than 1,048,576 bytes that are no messages"),
        ([NOTICE * 10_001], "sent 10,001 messages without an answer"),
        ([PING * 1_001], "sent 1,001 messages without an answer"),
        ([ANSWER.replace(b'"x"', b"9" * 5_000)], "sent a message that cannot be read"),
        ([ANSWER.replace(b'"x"', b"[" * 5_000 + b"]" * 5_000)], "that cannot be read"),
    ],
    ids=["line", "values", "noise", "logs", "notices", "questions", "digits", "depth"],
)
def test_what_is_too_much_is_told(said, words):
    with pytest.raises(TooMuch, match=words):
        read(*said)


def test_every_answer_gives_new_room():
    assert len(read(*[NOTICE * 9_000 + LOG * 20_000 + ANSWER] * 3)) == 3 * 9_001
    prose = ANSWER.replace(b'"x"', b'"' + b"a, b" * bounds.MIB + b'"')
    assert len(read(prose)) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ('b"x" * 65536', "sent a message of more than 33,554,432 bytes"),
        ('b"x\\n" * 9999', "wrote more than 1,048,576 bytes that are no messages"),
        (f"{NOTICE!r}", "sent 10,001 messages without an answer"),
    ],
    ids=["line", "noise", "notices"],
)
async def test_a_server_that_never_ends_is_ended(probe, tmp_path, what, words, caplog):
    program = tmp_path / "server.py"
    program.write_text(SERVER.replace("WHEN", "tools/call").replace("WHAT", what))
    servers = probe.servers(command=[sys.executable, str(program)])
    given = await probe.call(servers, await probe.pinned(servers), "go")
    assert (given.outcome, given.code) == ("effect_uncertain", "server_unavailable")
    assert f"ended in the middle of the call (it {words})" in given.text
    assert not caplog.records
    program.write_text(SERVER.replace("WHEN", "tools/list").replace("WHAT", what))
    with pytest.raises(InvalidInput, match=f"does not work on this worker: it {words}"):
        await probe.pinned(probe.servers(command=[sys.executable, str(program)]))


@asynccontextmanager
async def answered(body, **headers):
    """A client whose every answer has this body."""

    async def chunks():
        for start in range(0, len(body), bounds.MIB):
            yield body[start : start + bounds.MIB]

    def answer(request):
        assert request.headers["accept-encoding"] == "identity"
        return httpx2.Response(200, headers=headers, content=chunks())

    transport = BoundedTransport(httpx2.MockTransport(answer))
    async with httpx2.AsyncClient(transport=transport) as client:
        yield client


@pytest.mark.parametrize(
    ("body", "headers", "words"),
    [
        (b"x" * 33 * bounds.MIB, {}, "more than 3"),
        (b"x" * 65 * bounds.MIB, {"content-type": "text/event-stream"}, "more than 6"),
        (json.dumps([1] * 600_000).encode(), {}, "more than 500,000 values"),
        (gzip.compress(b"x"), {"content-encoding": "gzip"}, "compressed, which was not asked"),
    ],
    ids=["json", "events", "values", "packed"],
)
async def test_an_http_answer_ends_at_its_bound(body, headers, words):
    async with answered(body, **headers) as client:
        with pytest.raises(httpx2.StreamError, match=words):
            await client.get("http://tools.example")


async def test_an_http_answer_within_its_bounds_arrives():
    async with answered(ANSWER) as client:
        assert (await client.get("http://tools.example")).content == ANSWER
