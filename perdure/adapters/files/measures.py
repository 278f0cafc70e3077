"""Pixels of images and pages of PDFs, from content that nobody vouches for.

Images are measured by their headers, never decoded. A PDF has to be parsed, which some make slow on
purpose: that happens in a process with limits.
"""

import base64
import io

import imagesize

from perdure.adapters.bounded_process.process import TooMuch, work_now
from perdure.domain.llm.attachments import Measures
from perdure.domain.llm.file_signatures import MediaType


def measured(data: bytes, media_type: MediaType) -> Measures:
    """What the content says of its size; blocks for as long as a process takes to start."""
    return _pdf(data) if media_type == "application/pdf" else _image(data, media_type)


def _image(data: bytes, media_type: MediaType) -> Measures:
    try:
        width, height = imagesize.get(io.BytesIO(data), exif_rotation=False)
    except Exception:  # the parser raises whatever a broken header makes it raise
        width = height = 0
    if width < 1 or height < 1:
        return Measures(problem=f"its {media_type} header is broken; save it again")
    return Measures(width=width, height=height)


def _pdf(data: bytes) -> Measures:
    try:
        found = work_now("pages", base64.b64encode(data).decode("ascii"))
    except TooMuch as error:
        return Measures(problem=f"it cannot be read as a PDF: {error}; print it to a new PDF")
    if not isinstance(found, int):
        return Measures(problem=f"it cannot be read as a PDF: {found}")
    return Measures(pages=found)
