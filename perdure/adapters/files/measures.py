"""Counts the pixels of images and the pages of PDFs that may be hostile.

Images are measured by their headers, never decoded. A PDF must be parsed, and can be made to take
very long, so that happens in a process with limits.
"""

import base64
import io

import imagesize

from perdure.adapters.bounded_process.process import TooMuch, work_now
from perdure.domain.llm.attachments import Measures
from perdure.domain.llm.file_signatures import MediaType


def measured(data: bytes, media_type: MediaType) -> Measures:
    """The size that the content states; for a PDF this blocks while a process runs."""
    return _pdf(data) if media_type == "application/pdf" else _image(data, media_type)


def _image(data: bytes, media_type: MediaType) -> Measures:
    try:
        width, height = imagesize.get(io.BytesIO(data), exif_rotation=False)
    except Exception:  # on broken headers the parser raises errors of any kind
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
