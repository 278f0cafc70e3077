"""Messages of a conversation: sizes, and closing what was cut off."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.llm.transcript import (
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    assistant_message,
    closed,
    message_tokens,
    user_message,
)


def use(*ids: str) -> Message:
    blocks = tuple(ToolUseBlock(type="tool_use", id=i, name="t", arguments={}) for i in ids)
    return Message(role="assistant", blocks=blocks)


def answers(*ids: str) -> Message:
    blocks = tuple(
        ToolResultBlock(type="tool_result", call_id=i, name="t", outcome="ok", text="r")
        for i in ids
    )
    return Message(role="user", blocks=blocks)


def test_a_message_shows_its_text_and_its_calls():
    message = Message(
        role="assistant",
        blocks=(
            TextBlock(type="text", text="one"),
            ToolUseBlock(type="tool_use", id="c", name="t", arguments={"a": 1}),
            TextBlock(type="text", text="two"),
        ),
    )
    assert message.text == "one\n\ntwo"
    assert [call.id for call in message.tool_uses] == ["c"]


def test_every_block_has_a_size():
    empty = message_tokens(Message(role="user", blocks=())).total
    blocks = (
        TextBlock(type="text", text="some words here"),
        ThinkingBlock(type="thinking", model="m", native={"thinking": "some words here"}),
        ToolUseBlock(type="tool_use", id="c", name="t", arguments={"a": "some words"}),
        answers("c").blocks[0],
    )
    for block in blocks:
        assert message_tokens(Message(role="user", blocks=(block,))).total > empty


def test_a_call_that_was_cut_off_is_answered_as_interrupted():
    found = closed([user_message("hi"), use("a", "b")])
    assert [block.type for block in found[-1].blocks] == ["tool_result", "tool_result"]
    assert {block.outcome for block in found[-1].blocks if block.type == "tool_result"} == {
        "interrupted"
    }


def test_a_cut_in_the_middle_is_closed_before_what_follows():
    found = closed([use("a"), user_message("and?"), assistant_message("so")])
    assert [message.role for message in found] == ["assistant", "user", "user", "assistant"]


STEP = st.sampled_from(["text", "called", "cut"])


@given(st.lists(STEP, max_size=8))
def test_a_closed_conversation_stays_as_it_is(steps):
    messages: list[Message] = []
    for number, step in enumerate(steps):
        match step:
            case "text":
                messages.append(assistant_message("x"))
            case "called":
                messages += [use(str(number)), answers(str(number))]
            case _:
                messages.append(use(str(number)))
    once = closed(messages)
    assert closed(once) == once
    assert [message for message in once if message in messages] == messages
