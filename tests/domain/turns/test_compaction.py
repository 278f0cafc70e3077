"""A transcript made shorter: what goes first, and what stays word for word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.transcript import (
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    assistant_message,
    message_tokens,
    user_message,
)
from perdure.domain.turns.compaction import compact, is_due, target_tokens


def turn(number: int, size: int) -> list[Message]:
    """A tool call and its result of about `size` characters."""
    use = ToolUseBlock(type="tool_use", id=f"c{number}", name="fs.read", arguments={"n": number})
    result = ToolResultBlock(
        type="tool_result",
        call_id=f"c{number}",
        name="fs.read",
        outcome="ok",
        text=f"{number} " + "word " * (size // 5),
        ref=BlobRef(hash=f"sha256:{number}"),
    )
    return [Message(role="assistant", blocks=(use,)), Message(role="user", blocks=(result,))]


def tokens(messages: list[Message]) -> int:
    return sum(message_tokens(message).total for message in messages)


def result_texts(messages: list[Message]) -> list[str]:
    return [
        block.text
        for message in messages
        for block in message.blocks
        if isinstance(block, ToolResultBlock)
    ]


TASK = user_message("the task", pinned=True)


def test_oldest_results_become_placeholders_and_the_newest_stay():
    messages = [TASK, *(message for number in range(10) for message in turn(number, 8_000))]
    target = tokens(messages) // 2
    kept = compact(messages, target=target)
    texts = result_texts(kept)
    assert texts[0].startswith("[result of fs.read, ")
    assert 'artifact.read {"ref": "sha256:0"}' in texts[0]
    assert texts[-3:] == result_texts(messages)[-3:], "no more of them than is needed"
    assert len(texts) == 10
    assert target * 0.6 < tokens(kept) <= target


def test_who_cannot_read_on_is_not_told_to():
    messages = [TASK, *(message for number in range(10) for message in turn(number, 8_000))]
    texts = result_texts(compact(messages, target=tokens(messages) // 2, reads=False))
    assert texts[0].endswith("characters, left out]")


def test_where_that_is_not_enough_the_oldest_turns_become_a_summary():
    messages = [TASK, *(assistant_message(f"{number} " + "word " * 500) for number in range(20))]
    kept = compact(messages, target=6_000)
    assert kept[0].text.startswith("the task")
    assert "[Summary of " in kept[0].text
    assert "- You said: 2 word" in kept[0].text
    assert kept[-1] == messages[-1]
    assert tokens(kept) <= 6_000


def test_a_summary_names_calls_their_ends_and_where_to_read_on():
    messages = [TASK, *turn(0, 40), *(assistant_message("word " * 1_500) for _ in range(4))]
    told = compact(messages, target=4_000)[0].text
    assert "- You called fs.read {'n': 0}" in told
    assert "- fs.read ended ok (sha256:0): 0 word" in told


def test_a_second_compaction_goes_on_with_the_first_summary():
    messages = [TASK, *(assistant_message(f"{number} " + "word " * 300) for number in range(9))]
    first = compact(messages, target=1_500)
    more = [*first, *(assistant_message(f"{number} " + "word " * 300) for number in range(9, 18))]
    told = compact(more, target=1_500)[0].text
    assert told.count("[Summary of ") == 1
    assert "[Summary of 15 earlier messages" in told or "[Summary of 16 earlier messages" in told
    assert tokens(compact(more, target=1_500)) <= 1_500


@pytest.mark.parametrize(
    "task",
    [
        "[Summary of the meeting] Turn it into minutes.",
        "[Summary of 3 meetings] Turn them into minutes.",
        "[Summary of 3 earlier messages, the oldest first]\nTurn them into minutes.",
    ],
)
def test_a_task_that_reads_like_a_summary_stays_word_for_word(task: str):
    messages = [user_message(task)]
    for count in (9, 18):
        more = (
            assistant_message(f"{number} " + "word " * 300) for number in range(count - 9, count)
        )
        messages = compact([*messages, *more], target=1_500)
        own, summary = messages[0].blocks
        assert isinstance(own, TextBlock)
        assert isinstance(summary, TextBlock)
        assert own.text == task
        assert summary.text.startswith("[Summary of ")


def test_only_the_heading_of_a_summary_begins_one():
    noted = "[Summary of many earlier messages, the oldest first]"
    first = Message(
        role="user", blocks=(*TASK.blocks, TextBlock(type="text", text=noted)), pinned=True
    )
    more = (assistant_message("word " * 300) for _ in range(9))
    assert noted in compact([first, *more], target=1_500)[0].text


def test_a_large_conversation_fits_the_small_window_of_a_fallback():
    messages = [TASK, *(message for number in range(60) for message in turn(number, 12_000))]
    target = target_tokens(window=10_000, fixed=500, factor=1.0)
    assert tokens(messages) > 10 * target
    assert tokens(compact(messages, target=target)) <= target


def test_what_the_provider_found_too_long_is_made_shorter_whatever_we_count():
    messages = [TASK, *(message for number in range(9) for message in turn(number, 2_000))]
    kept = compact(messages, target=10**6)
    assert tokens(kept) <= tokens(messages) * 0.6


def test_pinned_messages_stay_word_for_word():
    said = user_message("use metric units", pinned=True)
    early = [message for number in range(9) for message in turn(number, 400)]
    chat = [assistant_message("word " * 300) for _ in range(30)]
    kept = compact([TASK, said, *early, *chat], target=4_000)
    assert said in kept
    assert "[Summary of " in kept[0].text


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3_000), st.booleans()), max_size=25),
    st.integers(300, 20_000),
)
def test_no_call_is_parted_from_its_result(script, target):
    messages = [TASK]
    for number, (calls, size, pinned) in enumerate(script):
        if calls:
            messages += turn(number, size)
        else:
            messages += [assistant_message("a" * size), user_message("b" * size, pinned=pinned)]
    kept = compact(messages, target=target)
    assert kept[0].text.startswith("the task")
    for message, following in zip(kept, [*kept[1:], user_message("")], strict=True):
        answered = [
            block.call_id for block in following.blocks if isinstance(block, ToolResultBlock)
        ]
        assert [use.id for use in message.tool_uses] == answered
    assert [message for message in messages[1:] if message.pinned] == [
        message for message in kept[1:] if message.pinned
    ]
    untouchable = [message for message in messages if message.pinned]
    newest = messages[max(1, len(messages) - 2) :]
    assert tokens(kept) <= max(target, tokens([TASK, *untouchable, *newest]) + target // 4)


@pytest.mark.parametrize(
    ("window", "factor", "target"),
    [
        pytest.param(200_000, 1.0, 107_400, id="large"),
        pytest.param(8_000, 1.0, 3_000, id="small"),
        pytest.param(200_000, 2.0, 53_400, id="a model with twice our tokens"),
        pytest.param(1_000, 1.0, 256, id="hardly any"),
    ],
)
def test_the_target_is_what_the_window_leaves(window: int, factor: float, target: int) -> None:
    assert target_tokens(window=window, fixed=1_000, factor=factor) == target


@pytest.mark.parametrize(
    ("prompt", "window", "due"),
    [
        pytest.param(180_000, 200_000, False, id="the reserve is free"),
        pytest.param(180_001, 200_000, True, id="into the reserve"),
        pytest.param(6_144, 8_192, False, id="a quarter of a small window is free"),
        pytest.param(6_145, 8_192, True, id="into a quarter of a small window"),
    ],
)
def test_it_is_due_when_the_prompt_reaches_the_reserve(prompt: int, window: int, due: bool) -> None:
    assert is_due(prompt, window=window) is due
