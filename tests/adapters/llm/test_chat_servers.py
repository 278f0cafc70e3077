"""What single compatible servers do that the documents of chat completions do not say."""

from typing import Any

from tests.adapters.llm.dialects import CHAT, chat_call, chat_client, chat_usage, chunk, lines
from tests.adapters.llm.support import READ_TOOL, Provider, request, say, stream_of

MODEL = CHAT.model


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
