"""What single compatible servers do that the documents of chat completions do not say."""

from typing import Any

import pytest

from perdure.domain.llm.usage import Usage
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
