"""The tokens of images and PDFs: one bound that no provider's own formula exceeds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.foundation.tokens import TokenSizes
from perdure.domain.llm.attachments import (
    MOST_IMAGE_TOKENS,
    Attachment,
    image_tokens,
    pdf_tokens,
    tile_tokens,
)
from perdure.domain.llm.transcript import (
    Message,
    ToolResultBlock,
    message_tokens,
    user_message,
    with_attachments,
)

SIDES = st.integers(1, 8_000)
ONE = Attachment(ref="sha256:x", media_type="image/png", bytes=10, name="a", width=280, height=280)


def claude(width: int, height: int, *, edge: int, most: int) -> int:
    """As documented: scaled to the longest edge, and down to the most tokens."""
    fit = min(1.0, edge / max(width, height))
    area = math.ceil(width * fit) * math.ceil(height * fit) / 750
    return min(math.ceil(area), most)


def patches(width: int, height: int, *, most: int) -> int:
    return min(math.ceil(width / 32) * math.ceil(height / 32), most)


@given(SIDES, SIDES)
def test_no_documented_formula_exceeds_the_bound(width: int, height: int):
    bound = image_tokens(width, height)
    assert bound >= claude(width, height, edge=1_568, most=1_600)
    assert bound >= claude(width, height, edge=2_576, most=4_784)
    assert bound >= tile_tokens(width, height)
    assert bound >= patches(width, height, most=2_500)


@given(SIDES, SIDES)
def test_factors_cover_the_families_that_charge_more(width: int, height: int):
    bound = image_tokens(width, height)
    assert bound * 34 >= tile_tokens(width, height, base=2_833, tile=5_667)
    assert bound * 2.46 >= patches(width, height, most=1_536) * 2.46


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (200, 200, 255),  # one tile is more than 54 tokens by pixels
        (1_000, 1_000, 1_334),
        (1_024, 1_024, 1_399),
        (8_000, 8_000, MOST_IMAGE_TOKENS),
        (None, None, MOST_IMAGE_TOKENS),
        (1, 8_000, 765),
    ],
)
def test_examples(width: int | None, height: int | None, tokens: int):
    assert image_tokens(width, height) == tokens


@pytest.mark.parametrize(
    ("width", "height", "tokens"), [(1_024, 1_024, 765), (2_048, 4_096, 1_105), (512, 512, 255)]
)
def test_tiles_as_openai_documents_them(width: int, height: int, tokens: int):
    assert tile_tokens(width, height) == tokens


def test_a_page_is_its_text_and_its_image():
    assert pdf_tokens(3) == 3 * 8_000
    assert pdf_tokens(None) == 8_000


def test_a_message_counts_what_it_shows_apart_from_its_text():
    plain = user_message("What is this?")
    shown = with_attachments(plain, [ONE])
    result = ToolResultBlock(
        type="tool_result", call_id="c", name="fs.read", outcome="ok", text="r", attachments=(ONE,)
    )
    assert message_tokens(plain).media == 0
    assert message_tokens(shown).media == ONE.tokens.media == 255
    assert message_tokens(shown).text > message_tokens(plain).text
    assert message_tokens(Message(role="user", blocks=(result,))).media == 255
    assert shown.attachments == (ONE,)
    assert shown.text == plain.text


def test_sizes_add_up_and_calibration_is_for_text_alone():
    whole = TokenSizes(prose=3, media=100) + TokenSizes(code=2, media=50)
    assert (whole.total, whole.text, whole.media, whole.likely) == (155, 5, 150, 80)
