"""Images and PDFs on every wire: the same conversation, in the words of each dialect."""

import base64
from typing import Any

import pytest
from inline_snapshot import snapshot
from pictures import pdf, png

from perdure.adapters.llm.embedded_client import EmbeddedModel
from perdure.domain.llm.attachments import Attachment
from perdure.domain.llm.requests import ModelRequest
from perdure.domain.llm.transcript import (
    Message,
    TextBlock,
    ToolResultBlock,
    user_message,
    with_attachments,
)
from tests.adapters.llm.dialects import CHAT, DIALECTS, MESSAGES, RESPONSES, Dialect
from tests.adapters.llm.support import (
    CLAUDE,
    READ_TOOL,
    Provider,
    call_message,
    events,
    fails,
    hello,
    request,
    say,
    script_name,
    scripted,
    stream_of,
)

PICTURE = Attachment(
    ref="sha256:p", media_type="image/png", bytes=9, name="chart.png", width=4, height=3
)
PAPER = Attachment(ref="sha256:d", media_type="application/pdf", bytes=9, name="a.pdf", pages=1)
FILES = {"sha256:p": b"picture", "sha256:d": b"paper"}
TASK = with_attachments(user_message("Compare them.", pinned=True), [PICTURE, PAPER])
READ = Message(
    role="user",
    blocks=(
        ToolResultBlock(
            type="tool_result",
            call_id="a",
            name="fs.read",
            outcome="ok",
            text="[image chart.png]",
            attachments=(PICTURE,),
        ),
        TextBlock(type="text", text="Go on."),
    ),
)
TALK = (TASK, call_message("a"), READ)


def shown(model: str, messages: tuple[Message, ...] = TALK, **changes: Any) -> ModelRequest:
    values: dict[str, Any] = {"messages": messages, "files": FILES, "tools": (READ_TOOL,)}
    return request(model, **(values | changes))


async def sent(dialect: Dialect, **changes: Any) -> dict[str, Any]:
    client, provider = dialect.client(lambda _: dialect_answer(dialect), count=3)
    await say(client, shown(dialect.model, **changes))
    return provider.bodies[-1]


def dialect_answer(dialect: Dialect) -> Any:
    return stream_of(dialect.body("Fine."))


async def test_messages() -> None:
    assert (await sent(MESSAGES))["messages"] == snapshot(
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "image",
                        "source": {
                            "type": "base64",
                            "media_type": "image/png",
                            "data": "cGljdHVyZQ==",
                        },
                    },
                    {
                        "type": "document",
                        "source": {
                            "type": "base64",
                            "media_type": "application/pdf",
                            "data": "cGFwZXI=",
                        },
                        "title": "a.pdf",
                    },
                    {"type": "text", "text": "Compare them."},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "a", "name": "fs__read", "input": {"path": "a"}}
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "a",
                        "content": [
                            {"type": "text", "text": "[image chart.png]"},
                            {
                                "type": "image",
                                "source": {
                                    "type": "base64",
                                    "media_type": "image/png",
                                    "data": "cGljdHVyZQ==",
                                },
                            },
                        ],
                        "is_error": False,
                    },
                    {"type": "text", "text": "Go on."},
                ],
            },
        ]
    )


async def test_responses() -> None:
    assert (await sent(RESPONSES))["input"] == snapshot(
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "input_image",
                        "image_url": "data:image/png;base64,cGljdHVyZQ==",
                        "detail": "high",
                    }
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "input_file",
                        "filename": "a.pdf",
                        "file_data": "data:application/pdf;base64,cGFwZXI=",
                    }
                ],
            },
            {"role": "user", "content": "Compare them."},
            {
                "type": "function_call",
                "call_id": "a",
                "name": "fs__read",
                "arguments": '{"path": "a"}',
            },
            {
                "type": "function_call_output",
                "call_id": "a",
                "output": [
                    {"type": "input_text", "text": "[image chart.png]"},
                    {
                        "type": "input_image",
                        "image_url": "data:image/png;base64,cGljdHVyZQ==",
                        "detail": "high",
                    },
                ],
            },
            {"role": "user", "content": "Go on."},
        ]
    )


async def test_chat() -> None:
    assert (await sent(CHAT))["messages"] == snapshot(
        [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {
                        "type": "image_url",
                        "image_url": {
                            "url": "data:image/png;base64,cGljdHVyZQ==",
                            "detail": "high",
                        },
                    },
                    {
                        "type": "file",
                        "file": {
                            "filename": "a.pdf",
                            "file_data": "data:application/pdf;base64,cGFwZXI=",
                        },
                    },
                    {"type": "text", "text": "Compare them."},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "a",
                        "type": "function",
                        "function": {"name": "fs__read", "arguments": '{"path": "a"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "[image chart.png]"},
            {
                "role": "user",
                "content": [
                    {
                        "type": "text",
                        "text": "What the tools showed, in the order of their results:",
                    },
                    {
                        "type": "image_url",
                        "image_url": {
                            "url": "data:image/png;base64,cGljdHVyZQ==",
                            "detail": "high",
                        },
                    },
                    {"type": "text", "text": "Go on."},
                ],
            },
        ]
    )


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
async def test_the_content_goes_out_whole(dialect: Dialect) -> None:
    picture, paper = png(20, 10), pdf()
    body = str(await sent(dialect, files={"sha256:p": picture, "sha256:d": paper}))
    assert body.count(base64.b64encode(picture).decode()) == 2
    assert body.count(base64.b64encode(paper).decode()) == 1


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
async def test_without_its_content_nothing_is_sent(dialect: Dialect) -> None:
    client, provider = dialect.client(lambda _: dialect_answer(dialect))
    facts = await fails(client, shown(dialect.model, files={}))
    assert facts.kind == "bad_request"
    assert "The content of image chart.png" in facts.message
    assert provider.bodies == []


async def test_the_provider_counts_what_it_is_shown() -> None:
    provider = Provider(events(*hello()), count=2_345)
    assert await provider.client().count(shown(CLAUDE)) == 2_345
    assert "image" in str(provider.counted)
    assert "document" in str(provider.counted)


async def test_the_embedded_model_refuses_in_words() -> None:
    provider = Provider(events(*hello()))
    client = EmbeddedModel(url="http://127.0.0.1:9", inner=provider.transport)
    facts = await fails(client, shown("local", tools=()))
    assert facts.kind == "bad_request"
    assert "cannot be shown image chart.png" in facts.message
    assert "Use a model that takes images and PDFs" in facts.message
    assert provider.bodies == []


async def test_marks_for_the_cache_stay_on_texts_and_results() -> None:
    several = with_attachments(user_message("The task.", "This draft."), [PICTURE])
    body = await sent(MESSAGES, messages=(several,), cache="first")
    picture, constant, changing = body["messages"][0]["content"]
    assert "cache_control" not in picture
    assert "cache_control" in constant
    assert "cache_control" not in changing


SCRIPT = """
replies:
  - {when: {sees: application/pdf}, text: A paper.}
  - {when: {sees: image/png}, text: A picture.}
  - {text: Nothing.}
"""
BLIND = "attachments: []\nreplies: [{text: Words.}]\n"


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        pytest.param((TASK,), "A paper.", id="pdf"),
        pytest.param((with_attachments(user_message("x"), [PICTURE]),), "A picture.", id="image"),
        pytest.param((user_message("x"),), "Nothing.", id="text"),
    ],
)
async def test_a_script_answers_by_what_it_sees(messages: tuple[Message, ...], text: str) -> None:
    reply, _ = await say(scripted(SCRIPT), shown(script_name(SCRIPT), messages, tools=()))
    assert reply.message.text == text


async def test_a_script_says_what_its_model_takes_and_counts_the_bound() -> None:
    assert (await scripted(SCRIPT).card(script_name(SCRIPT))).attachments == ("image", "pdf")
    assert (await scripted(BLIND).card(script_name(BLIND))).attachments == ()
    plain = await scripted(SCRIPT).count(shown(script_name(SCRIPT), (user_message("x"),)))
    seen = await scripted(SCRIPT).count(shown(script_name(SCRIPT), (TASK,)))
    assert plain is not None
    assert seen is not None
    assert seen - plain >= PICTURE.tokens.media + PAPER.tokens.media


async def test_a_script_wants_the_content_as_a_provider_does() -> None:
    facts = await fails(scripted(SCRIPT), shown(script_name(SCRIPT), (TASK,), files={}))
    assert "The content of image chart.png" in facts.message
