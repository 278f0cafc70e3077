"""Halves of characters in answers, in every dialect: what was paid for can always be stored."""

import pytest

from perdure.adapters.llm.registry import CleanModel
from perdure.domain.llm.requests import ModelReply
from perdure.domain.llm.whole_characters import HALF_CHARACTER
from tests.adapters.llm.dialects import DIALECTS, Dialect
from tests.adapters.llm.support import READ_TOOL, fails, request, say


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return request.param


async def stored(dialect: Dialect, content: bytes) -> ModelReply:
    """The reply as a store gives it back."""
    client, _ = dialect.client(dialect.stream(content))
    reply, _ = await say(CleanModel(client), request(dialect.model, tools=(READ_TOOL,)))
    assert ModelReply.model_validate_json(reply.model_dump_json()) == reply
    return reply


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (("so \ud83d", "\ude00 far"), "so \N{GRINNING FACE} far"),
        (("so \ud83d", " far"), "so \N{REPLACEMENT CHARACTER} far"),
        (("so \ude00\ud83d",), "so \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
    ],
    ids=["split over two pieces", "lone", "the wrong way round"],
)
@pytest.mark.parametrize("usage", [True, False], ids=["usage told", "usage counted"])
async def test_a_text_is_made_of_whole_characters(
    dialect: Dialect, pieces: tuple[str, ...], text: str, *, usage: bool
) -> None:
    assert (await stored(dialect, dialect.body(*pieces, usage=usage))).message.text == text


@pytest.mark.parametrize(
    "written",
    [('{"path": "\ud83d', '\ude00"}'), ('{"path": "\\ud83d\\ude00"}',)],
    ids=["split over two pieces", "as escapes"],
)
async def test_both_halves_in_arguments_are_one_character(
    dialect: Dialect, written: tuple[str, ...]
) -> None:
    reply = await stored(dialect, dialect.body(calls=written, stop="tool_use"))
    assert [call.arguments for call in reply.message.tool_uses] == [{"path": "\N{GRINNING FACE}"}]


@pytest.mark.parametrize(
    "written",
    ['{"path": "\\ud83d"}', '{"path": "\ud83d"}', '{"\\ude00": 1}', '{"path": [{"a": "\\ud83d"}]}'],
    ids=["as an escape", "as it is", "in a name", "deep inside"],
)
async def test_a_lone_half_in_arguments_is_told_to_the_model(
    dialect: Dialect, written: str
) -> None:
    reply = await stored(dialect, dialect.body(calls=(written,), stop="tool_use"))
    (call,) = reply.message.tool_uses
    assert (call.name, call.arguments, call.unreadable) == ("fs.read", {}, HALF_CHARACTER)


async def test_an_error_is_told_in_whole_characters(dialect: Dialect) -> None:
    answer = dialect.error("bad_request")
    content = answer.content.replace(b"no luck", b"no \\ud83d luck")
    client, _ = dialect.client(type(answer)(400, content=content))
    facts = await fails(CleanModel(client), request(dialect.model))
    assert "no \N{REPLACEMENT CHARACTER} luck" in facts.message
