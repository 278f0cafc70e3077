"""What one call shows its model: what it takes, the task's own first, then the newest."""

from perdure.domain.llm.attachments import MOST_IN_A_CALL, Attachment
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.llm.shown_attachments import as_shown
from perdure.domain.llm.transcript import Message, ToolResultBlock, user_message, with_attachments

SEES = ModelProfile(name="sees", price=None, attachments=("image", "pdf"))
BLIND = ModelProfile(name="blind", price=None)
IMAGES_ONLY = ModelProfile(name="images", price=None, attachments=("image",))


def image(name: str, size: int = 10) -> Attachment:
    return Attachment(ref=f"sha256:{name}", media_type="image/png", bytes=size, name=name)


PDF = Attachment(ref="sha256:pdf", media_type="application/pdf", bytes=10, name="a.pdf", pages=2)


def task(*shown: Attachment) -> Message:
    return with_attachments(user_message("Look.", pinned=True), shown)


def result(*shown: Attachment) -> Message:
    block = ToolResultBlock(
        type="tool_result",
        call_id="c",
        name="fs.read",
        outcome="ok",
        text="read",
        attachments=shown,
    )
    return Message(role="user", blocks=(block,))


def names(messages: tuple[Message, ...]) -> list[str]:
    return [one.name for message in messages for one in message.attachments]


def test_messages_without_any_stay_as_they_are():
    messages = (user_message("a"), result())
    assert as_shown(messages, BLIND) == messages


def test_a_model_that_sees_is_shown_all():
    messages = (task(image("a"), PDF), result(image("b")))
    assert as_shown(messages, SEES) == messages


def test_a_model_that_cannot_see_reads_why():
    shown = as_shown((task(image("a")), result(PDF)), BLIND)
    assert names(shown) == []
    assert shown[0].text == "[image a, image/png, 10 bytes: blind cannot be shown images]\n\nLook."
    (block,) = shown[1].blocks
    assert isinstance(block, ToolResultBlock)
    assert block.text == (
        "read\n[PDF a.pdf, application/pdf, 2 pages, 10 bytes: blind cannot be shown PDFs]"
    )


def test_a_model_is_shown_the_kind_that_it_takes():
    assert names(as_shown((task(image("a"), PDF),), IMAGES_ONLY)) == ["a"]


def test_one_call_shows_the_task_and_then_the_newest():
    read = [result(image(f"r{number}")) for number in range(MOST_IN_A_CALL + 3)]
    shown = as_shown((task(image("t")), *read), SEES)
    assert names(shown) == ["t", *(f"r{number}" for number in range(4, MOST_IN_A_CALL + 3))]
    (left_out,) = shown[1].blocks
    assert isinstance(left_out, ToolResultBlock)
    assert "left out, because one call shows no more" in left_out.text


def test_one_call_carries_so_many_bytes_and_pages():
    half = 11 * 1024 * 1024
    assert names(as_shown((result(image("old", half)), result(image("new", half))), SEES)) == [
        "new"
    ]
    long = PDF.model_copy(update={"pages": 60})
    other = long.model_copy(update={"name": "b.pdf"})
    assert names(as_shown((result(long), result(other)), SEES)) == ["b.pdf"]


def test_the_same_picture_twice_is_counted_twice():
    twice = result(image("a"), image("a"))
    assert names(as_shown((twice,), SEES)) == ["a", "a"]
