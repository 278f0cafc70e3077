"""Pixels and pages, read from content that nobody vouches for."""

import pytest
from pictures import gif, jpeg, pdf, png, webp

from perdure.adapters.files.measures import measured
from perdure.domain.llm.attachments import Measures
from perdure.domain.llm.file_signatures import MediaType

IMAGES: dict[MediaType, bytes] = {
    "image/png": png(640, 480),
    "image/gif": gif(640, 480),
    "image/jpeg": jpeg(640, 480),
    "image/webp": webp(640, 480),
}


@pytest.mark.parametrize("media_type", IMAGES)
def test_the_header_of_an_image_has_its_pixels(media_type: MediaType):
    assert measured(IMAGES[media_type], media_type) == Measures(width=640, height=480)


@pytest.mark.parametrize("media_type", IMAGES)
def test_a_broken_header_is_told(media_type: MediaType):
    found = measured(IMAGES[media_type][:8], media_type)
    assert "header is broken; save it again" in found.problem


def test_a_pdf_is_counted():
    assert measured(pdf(3), "application/pdf") == Measures(pages=3)


UNREADABLE = {
    "encrypted": (pdf(password="secret"), "it is encrypted; save it without a password"),
    "no structure": (b"%PDF-1.7\nnothing\n%%EOF", "print it to a new PDF"),
}


@pytest.mark.parametrize(("data", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_pdf_that_cannot_be_read_says_why_and_what_to_do(data: bytes, words: str):
    found = measured(data, "application/pdf")
    assert found.pages is None
    assert words in found.problem
