"""Images and PDFs: recognised by content, refused in words, named in words."""

import pytest
from pictures import gif, jpeg, pdf, png, webp

from perdure.domain.llm import attachments
from perdure.domain.llm.attachments import (
    MOST_BYTES_IN_A_CALL,
    MOST_IMAGE_BYTES,
    MOST_IN_A_CALL,
    MOST_PAGES,
    MOST_PDF_BYTES,
    Attachment,
    Measures,
    amount_problem,
    attachment_in,
    attachment_value,
    read_attachment,
)
from perdure.domain.llm.file_signatures import is_cut_off, media_type_of, named_as

REF = "sha256:" + "a" * 64
MADE = {
    "image/png": png(),
    "image/jpeg": jpeg(),
    "image/gif": gif(),
    "image/webp": webp(),
    "application/pdf": pdf(),
}


@pytest.mark.parametrize(("media_type", "data"), MADE.items(), ids=MADE)
def test_content_says_what_a_file_is(media_type: str, data: bytes):
    assert media_type_of(data) == media_type


@pytest.mark.parametrize(
    "data",
    [b"", b"plain text", b"\x89PNG", b"RIFF\0\0\0\0WAVE", b"GIF88a;", b"%PD", b"<svg/>", b"BM\0\0"],
)
def test_anything_else_is_neither_image_nor_pdf(data: bytes):
    assert media_type_of(data) is None


@pytest.mark.parametrize(("media_type", "data"), MADE.items(), ids=MADE)
def test_a_file_whose_end_is_missing_is_cut_off(media_type: str, data: bytes):
    found = media_type_of(data)
    assert found is not None
    assert not is_cut_off(data, found)
    assert is_cut_off(data[: len(data) * 2 // 3], found)


def test_a_name_only_promises():
    assert named_as("scans/Invoice.PDF") == "application/pdf"
    assert named_as("photo.jpeg") == "image/jpeg"
    assert named_as("notes.txt") is None
    assert read_attachment(jpeg(), name="photo.png", ref=REF) == Attachment(
        ref=REF, media_type="image/jpeg", bytes=len(jpeg()), name="photo.png"
    )


REFUSED = {
    "text called a picture": (b"some text", "its name promises image/png, but the content is not"),
    "too large an image": (png() + b"\0" * MOST_IMAGE_BYTES, "an image may have 3,932,160; scale"),
    "too large a PDF": (pdf() + b"\0" * MOST_PDF_BYTES, "a PDF may have 16,777,216; split it"),
    "cut off": (png()[:-4], "the end of the image/png file is missing; fetch"),
}


@pytest.mark.parametrize(("data", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_shown_says_why_and_what_to_do(data: bytes, words: str):
    why = read_attachment(data, name="a.png", ref=REF)
    assert isinstance(why, str)
    assert words in why


MEASURED = {
    "an edge": (Measures(width=9_000, height=10), "9,000 × 10 pixels, an edge may have 8,000"),
    "pages": (Measures(pages=MOST_PAGES + 1), "101 pages, a PDF may have 100; split it"),
    "a broken one": (Measures(problem="its header is broken"), "its header is broken"),
}


@pytest.mark.parametrize(("found", "words"), MEASURED.values(), ids=MEASURED)
def test_what_a_reader_finds_can_refuse_it_too(found: Measures, words: str):
    why = read_attachment(png(), name="a.png", ref=REF, measure=lambda _data, _type: found)
    assert isinstance(why, str)
    assert words in why


def image(**facts: int) -> Attachment:
    return Attachment(
        ref=REF, media_type="image/png", name="chart.png", **{"bytes": 40_960, **facts}
    )


def document(pages: int, size: int = 1_000) -> Attachment:
    return Attachment(ref=REF, media_type="application/pdf", bytes=size, name="a.pdf", pages=pages)


WORDS = {
    "[image chart.png, image/png, 40 KB]": image(),
    "[image chart.png, image/png, 640 × 480 pixels, 40 KB]": image(width=640, height=480),
    "[PDF a.pdf, application/pdf, 1 page, 1000 bytes]": document(1),
    "[PDF a.pdf, application/pdf, 3 pages, 2.0 MB]": document(3, 2 * 1024 * 1024),
}


@pytest.mark.parametrize(("words", "one"), WORDS.items(), ids=WORDS)
def test_people_and_models_read_it_in_words(words: str, one: Attachment):
    assert one.words == words


TOO_MUCH = {
    "images": ([image()] * (MOST_IN_A_CALL + 1), "21 images and PDFs, 20 are allowed"),
    "bytes": (
        [image(bytes=MOST_BYTES_IN_A_CALL // 5)] * 6,
        "bytes of images and PDFs, 20,971,520 are allowed",
    ),
    "pages": ([document(60), document(41)], "101 pages of PDFs, 100 are allowed"),
    "nothing": ([image(), document(100)], ""),
}


@pytest.mark.parametrize(("given", "words"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_task_shows_no_more_than_one_call_can(given: list[Attachment], words: str):
    assert words in amount_problem(given)
    assert bool(words) == bool(amount_problem(given))


def test_an_attachment_is_kept_as_an_input_and_found_again():
    one = image(width=4, height=3)
    kept = attachment_value(one)
    assert kept["ref"] == REF
    assert attachment_in(kept) == one


@pytest.mark.parametrize(
    "value",
    [
        "text",
        {"ref": REF},
        {"media_type": "image/png"},
        {"ref": REF, "media_type": "text/css"},
        None,
    ],
)
def test_other_inputs_are_no_attachments(value: object):
    assert attachment_in(value) is None  # type: ignore[arg-type]


def test_nothing_here_knows_a_limit_that_base64_would_break():
    # A third more than the content, and Claude takes 5 MiB of an image and 32 MB of a call.
    assert attachments.MOST_IMAGE_BYTES * 4 // 3 <= 5 * 1024 * 1024
    assert attachments.MOST_BYTES_IN_A_CALL * 4 // 3 < 30_000_000
